"""A stream of shopping transactions, made dirty, with the truth beside it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..evaluate.dirt import Error, Kind
from ..evaluate.spoil import Spoilt, spoil

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


def shopping(n: int, seed: int, dirt: float) -> Spoilt:
    """Return `n` transactions of which a cell on the right of a rule is wrong with probability `dirt`.

    It has a typo, or another value; a cell on the left is missing half as often.
    """
    right, left = ("city", "category", "email"), ("store", "zipcode", "item", "customer")
    errors = [
        Error(Kind.typo, dirt / 2, right),
        Error(Kind.domain, dirt / 2 / (1 - dirt / 2), right),  # of those that have no typo
        Error(Kind.missing, dirt / 2, left),
    ]
    return spoil(_transactions(n, np.random.default_rng(seed)), errors, seed)


def _transactions(n: int, random: np.random.Generator) -> pa.Table:
    store = random.integers(0, _STORES, n)
    item = random.integers(0, _ITEMS, n)
    customer = random.integers(0, _CUSTOMERS, n)
    city_of = np.random.default_rng(1).integers(0, len(_CITIES), _STORES)
    category_of = np.random.default_rng(2).integers(0, len(_CATEGORIES), _ITEMS)
    city = city_of[store]
    columns = {
        "id": pa.array(np.arange(n)),
        "store": pa.array([f"S{s:02}" for s in store]),
        "zipcode": pa.array([f"{c:02}0{z:02}" for c, z in zip(city, random.integers(0, 9, n), strict=True)]),
        "city": pa.array(_CITIES).take(pa.array(city)),
        "item": pa.array(item.astype(np.int32)),
        "category": pa.array(_CATEGORIES).take(pa.array(category_of[item])),
        "customer": pa.array(customer.astype(np.int32)),
        "email": pa.array([f"customer{c}@example.org" for c in customer]),
    }
    return pa.table(columns, SCHEMA)
