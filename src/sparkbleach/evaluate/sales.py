"""The paper's stream and rules: store sales joined with their dimensions, generated without any dependency.

The shape is that of TPC-DS at scale factor 1: 18,000 items, 300 promotions, 12 stores, 100,000 customers,
tickets of 8 to 16 contiguous lines. `dirt.py` makes the clean stream dirty. `tpcds.py` has TPC-DS itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..rules.rule import Rule

RULES = {
    "r0": "ss_item_sk -> i_brand",
    "r1": "ss_item_sk -> i_category",
    "r2": "ca_state, ca_city -> ca_zip",
    "r3": "ss_promo_sk -> p_promo_name",
    "r4": "ss_store_sk -> s_store_name",
    "r5": "ss_ticket_number -> s_store_name",
    "r6": "ss_ticket_number -> c_email_address",
    "r7": "ss_customer_sk -> c_email_address",
}
SALES_RULES = tuple(Rule.parse(text, id=id) for id, text in RULES.items())
#: r0 to r5, with which the paper's stream begins
SIX_RULES = SALES_RULES[:6]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ss_item_sk", pa.int64()),
        ("i_brand", pa.string()),
        ("i_category", pa.string()),
        ("ca_state", pa.string()),
        ("ca_city", pa.string()),
        ("ca_zip", pa.string()),
        ("ss_promo_sk", pa.int64()),
        ("p_promo_name", pa.string()),
        ("ss_store_sk", pa.int64()),
        ("s_store_name", pa.string()),
        ("ss_ticket_number", pa.int64()),
        ("ss_customer_sk", pa.int64()),
        ("c_email_address", pa.string()),
    ]
)

_ITEMS, _PROMOS, _STORES, _CUSTOMERS, _STATES, _CITIES = 18_000, 300, 12, 100_000, 51, 150
_BRANDS, _CATEGORIES, _ZIPS = 700, 10, 7_000
_PROMO_NAMES = ["ought", "able", "pri", "ese", "anti", "cally", "ation", "eing", "bar", "n st"]


class SalesStream:
    """An endless clean stream; the same seed gives the same stream."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._position = 0
        self._ticket = 0
        random = np.random.default_rng(seed + 1)
        self._domains = {
            "i_brand": _names("brandmaxi #{}", _BRANDS),
            "i_category": _names("Category{}", _CATEGORIES),
            "ca_state": _names("S{:02}", _STATES),
            "ca_city": _names("City of {}", _CITIES),
            "ca_zip": _names("{:05}", _ZIPS),
            "p_promo_name": pa.array(_PROMO_NAMES),
            "s_store_name": _names("store {}", 10),
            "c_email_address": _names("first.last{}@example.org", _CUSTOMERS),
        }
        # The values that belong to each key.
        self._brand = random.integers(0, _BRANDS, _ITEMS)
        self._category = random.integers(0, _CATEGORIES, _ITEMS)
        self._zip = random.integers(0, _ZIPS, _STATES * _CITIES)
        self._promo = random.integers(0, len(_PROMO_NAMES), _PROMOS)
        self._store = random.integers(0, 10, _STORES)
        self._address = random.integers(0, _STATES * _CITIES, _CUSTOMERS)

    def batches(self, n_tuples: int, batch_tuples: int) -> Iterator[pa.RecordBatch]:
        """Yield the next `n_tuples` tuples in batches."""
        for first in range(0, n_tuples, batch_tuples):
            yield self.batch(min(batch_tuples, n_tuples - first))

    def batch(self, n: int) -> pa.RecordBatch:
        """Return the next `n` tuples."""
        random = self._random
        lines = random.integers(8, 17, n // 8 + 2)
        ticket = np.repeat(np.arange(lines.size), lines)[:n]
        customer = random.integers(0, _CUSTOMERS, lines.size)[ticket]
        store = random.integers(0, _STORES, lines.size)[ticket]
        item = random.integers(0, _ITEMS, n)
        promo = random.integers(0, _PROMOS, n)
        address = self._address[customer]
        numbers = {
            "id": np.arange(n) + self._position,
            "ss_item_sk": item + 1,
            "ss_promo_sk": promo + 1,
            "ss_store_sk": store + 1,
            "ss_ticket_number": ticket + self._ticket + 1,
            "ss_customer_sk": customer + 1,
        }
        texts = {
            "i_brand": self._brand[item],
            "i_category": self._category[item],
            "ca_state": address // _CITIES,
            "ca_city": address % _CITIES,
            "ca_zip": self._zip[address],
            "p_promo_name": self._promo[promo],
            "s_store_name": self._store[store],
            "c_email_address": customer,
        }
        columns = {name: pa.array(values, pa.int64()) for name, values in numbers.items()}
        columns |= {name: self._domains[name].take(pa.array(codes)) for name, codes in texts.items()}
        self._position += n
        self._ticket += int(ticket[-1]) + 1 if n else 0
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _names(pattern: str, n: int) -> pa.Array:
    return pa.array([pattern.format(i) for i in range(n)])
