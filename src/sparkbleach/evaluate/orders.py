"""A stream of orders in which each rule is alone with its attribute: customer, zip code and SKU are keys.

It has what the paper's stream lacks: keys whose truth changes, and keys that come more often than others.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..rules.rule import Rule

ORDER_RULES = tuple(
    Rule.parse(text, id=id)
    for id, text in {
        "email": "customer -> email",
        "city": "zip -> city",
        "category": "sku -> category",
    }.items()
)
#: of the customers, one in this many moves
MOVERS_EVERY = 10
_CATEGORIES = 50
_ZIPS_PER_CITY = 4


def orders(
    n_tuples: int, n_keys: int, seed: int = 0, *, skew: float = 1.0, change_at: int | None = None
) -> pa.Table:
    """Return clean orders.

    Args:
        n_tuples: How many.
        n_keys: The number of customers, of zip codes and of SKUs.
        seed: The same seed gives the same orders.
        skew: 1: all keys come equally often; with more, some are hot.
        change_at: From this position on every tenth customer has another email address.
    """
    random = np.random.default_rng([seed, n_tuples, n_keys])
    customer, zip, sku = ((n_keys * random.random(n_tuples) ** skew).astype(np.int64) for _ in range(3))
    new = (customer % MOVERS_EVERY == 0) & (
        np.arange(n_tuples) >= (n_tuples if change_at is None else change_at)
    )
    # What belongs to a key is drawn, so that neighbours among keys have nothing in common.
    city, category = random.integers(0, [[n_keys // _ZIPS_PER_CITY + 1], [_CATEGORIES]], (2, n_keys))
    emails = [f"customer{key}@{host}.example" for host in ("old", "new") for key in range(n_keys)]
    return pa.table(
        {
            "id": np.arange(n_tuples),
            "customer": _taken([f"C{key:06}" for key in range(n_keys)], customer),
            "email": _taken(emails, customer + n_keys * new),
            "zip": _taken([f"{key:05}" for key in range(n_keys)], zip),
            "city": _taken([f"City of {name}" for name in range(n_keys // _ZIPS_PER_CITY + 1)], city[zip]),
            "sku": _taken([f"SKU-{key:06}" for key in range(n_keys)], sku),
            "category": _taken([f"category {name}" for name in range(_CATEGORIES)], category[sku]),
        }
    )


def _taken(names: list[str], codes: NDArray[np.int64]) -> pa.Array:
    return pa.array(names).take(pa.array(codes))
