"""A stream of shopping transactions, made dirty, with the truth beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

RULES = [
    "store_city: store -> city",
    "zip_city: zipcode -> city",
    "item_category: item -> category",
    "customer_email: customer -> email",
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("store", pa.string()),
        ("zipcode", pa.string()),
        ("city", pa.string()),
        ("item", pa.int32()),
        ("category", pa.string()),
        ("customer", pa.int32()),
        ("email", pa.string()),
    ]
)
_CITIES = ["Paris", "Lyon", "Nice", "Lille", "Nantes", "Rennes", "Toulouse", "Bordeaux", "Marseille", "Dijon"]
_CATEGORIES = ["Books", "Music", "Shoes", "Women", "Men", "Home", "Sports", "Jewelry"]
_STORES, _ITEMS, _CUSTOMERS = 40, 3_000, 4_000
_TRUE = ("city", "category", "email")


@dataclass(frozen=True)
class Shopping:
    """A stream, and what it should have been.

    Attributes:
        dirty: As it arrives.
        truth: As it should be.
    """

    dirty: pa.RecordBatch
    truth: pa.RecordBatch


def shopping(n: int, seed: int, dirt: float) -> Shopping:
    """Return `n` transactions.

    Args:
        n: How many.
        seed: Of the random numbers.
        dirt: The probability that a cell on the right of a rule is wrong (a typo, or another value), and
            half the probability that one on the left is missing.
    """
    random = np.random.default_rng(seed)
    store = random.integers(0, _STORES, n)
    item = random.integers(0, _ITEMS, n)
    customer = random.integers(0, _CUSTOMERS, n)
    city_of = np.random.default_rng(1).integers(0, len(_CITIES), _STORES)
    category_of = np.random.default_rng(2).integers(0, len(_CATEGORIES), _ITEMS)
    city = city_of[store]
    true = {
        "id": pa.array(np.arange(n)),
        "store": pa.array([f"S{s:02}" for s in store]),
        "zipcode": pa.array([f"{c:02}0{z:02}" for c, z in zip(city, random.integers(0, 9, n), strict=True)]),
        "city": pa.array(_CITIES).take(pa.array(city)),
        "item": pa.array(item.astype(np.int32)),
        "category": pa.array(_CATEGORIES).take(pa.array(category_of[item])),
        "customer": pa.array(customer.astype(np.int32)),
        "email": pa.array([f"customer{c}@example.org" for c in customer]),
    }
    truth = pa.RecordBatch.from_pydict(true, SCHEMA)
    columns = dict(true)
    for name in _TRUE:
        wrong = np.flatnonzero(random.random(n) < dirt)
        cells = true[name].to_pylist()
        for row in wrong:
            cells[row] = _spoilt(cells[row], cells[int(random.integers(0, n))], random)
        columns[name] = pa.array(cells)
    for name in ("store", "zipcode", "item", "customer"):
        missing = random.random(n) < dirt / 2
        columns[name] = pa.array(true[name].to_pylist(), SCHEMA.field(name).type, mask=missing)
    return Shopping(pa.RecordBatch.from_pydict(columns, SCHEMA), truth)


def _spoilt(cell: str, other: str, random: np.random.Generator) -> str:
    """Return another value, or one with a typo."""
    if random.random() < 0.5 and other != cell:
        return other
    at = int(random.integers(0, len(cell)))
    return cell[:at] + cell[at] + cell[at:]  # a letter twice
