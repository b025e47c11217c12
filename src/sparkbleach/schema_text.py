"""An Arrow schema as text, for JSON: in snapshots, in deltas and in outcomes of rule updates."""

from __future__ import annotations

import base64

import pyarrow as pa


def schema_to_text(schema: pa.Schema) -> str:
    """Return a schema as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_from_text(text: str) -> pa.Schema:
    """Return the schema that a text holds."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
