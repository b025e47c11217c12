"""Clean rows in this process, without Spark: `python examples/engine_only.py`.

The engine reads Arrow batches in the order of the stream. Each batch is repaired by what came before it.
"""

import pyarrow as pa

from sparkbleach import Engine, Window

SCHEMA = pa.schema([("id", pa.int64()), ("zipcode", pa.string()), ("city", pa.string())])

# A zip code has one city. The window bounds the memory: counts of older tuples are forgotten.
engine = Engine(SCHEMA, ["zip_city: zipcode -> city"], id="id", window=Window.tuples(1000, slide=500))

BATCHES = [
    {"id": [1, 2, 3], "zipcode": ["75001"] * 3, "city": ["Paris", "Paris", "Pariss"]},
    {"id": [4, 5, 6], "zipcode": ["75001", "69001", "69001"], "city": [None, "Lyon", "Lyon"]},
]
for columns in BATCHES:
    clean, audit = engine.process(pa.RecordBatch.from_pydict(columns, SCHEMA))
    print(clean.column("city").to_pylist())
    for repair in audit.to_pylist():
        print(f"  tuple {repair['id']}: {repair['old_value']} -> {repair['new_value']} by {repair['rules']}")

# Rules change while the stream runs: from now on a missing city is filled in.
engine.delete_rule("zip_city")
engine.add_rule({"id": "zip_city", "lhs": ["zipcode"], "rhs": "city", "nulls": "fill"})

# The state goes into bytes, and another process goes on with it.
engine = Engine.restore(engine.snapshot())
print(f"{engine.position} tuples, violations by rule: {engine.violations}")
