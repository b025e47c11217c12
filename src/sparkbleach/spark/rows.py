"""The rows between stages: what the ingress sends to a lane, and what a lane sends to the egress.

A row is a named tuple. Its fields and their types are the columns of the DataFrame between the stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, get_type_hints

import pyarrow as pa

from ..control.record import ControlRecord
from .blob import binary

if TYPE_CHECKING:
    import pandas as pd

Blob: TypeAlias = Any  #: bytes, an Arrow buffer, or None
Text: TypeAlias = str | None

#: by annotation of a field: the type of its column in a Spark schema, and in Arrow
_TYPES = {
    int: ("int", pa.int32()),
    str: ("string", pa.string()),
    Text: ("string", pa.string()),
    Blob: ("binary", pa.binary()),
}


class IngressRow(NamedTuple):
    """What the ingress sends to a lane: a blob, or a control record."""

    lane: int  #: the key of the lane
    partition: int = 0  #: the partition of the source that the rows of the blob come from
    sequence: int = 0  #: the place of the blob in its partition
    cells: Blob = None  #: the columns that rules of the lane read
    rest: Blob = None  #: the columns that no rule reads
    quarantined: Blob = None  #: the quarantined rows
    number: Text = None  #: the number of the control record
    control: Text = None  #: the text of the control record


class LaneRow(NamedTuple):
    """What a lane sends to the egress: a blob with its repairs, an outcome, or the report."""

    lane: int  #: the number of the lane
    number: int = 0  #: the place of the blob in its micro-batch
    cells: Blob = None  #: as they came from the ingress, if this lane sends them on
    rest: Blob = None  #: as it came from the ingress
    quarantined: Blob = None  #: as they came from the ingress
    repairs: Blob = None  #: what is to be changed in the cells
    control: Text = None  #: what became of a control record
    report: Text = None  #: the report of the micro-batch


R = TypeVar("R", bound=NamedTuple)


def row_schema(row_type: type[NamedTuple]) -> str:
    """Return the schema of a DataFrame of such rows."""
    return ", ".join(f"{name} {type}" for name, (type, _) in _columns(row_type).items())


def rows_to_batch(rows: Sequence[NamedTuple]) -> pa.RecordBatch:
    """Return rows of one type, at least one, as an Arrow batch."""
    columns = _columns(type(rows[0]))
    values = zip(*rows, strict=True)
    arrays = [_array(own, type) for own, (_, type) in zip(values, columns.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def rows_to_frame(rows: Sequence[NamedTuple]) -> pd.DataFrame:
    """Return rows of one type, at least one, as a stateful operator yields them."""
    import pandas as pd

    plain = [[_to_bytes(value) for value in row] for row in rows]
    return pd.DataFrame(plain, columns=type(rows[0])._fields, dtype=object)


def rows_from_batch(row_type: type[R], batch: pa.RecordBatch) -> Iterator[R]:
    """Yield the rows in an Arrow batch; blobs are not copied."""
    columns = [batch.column(name) for name in row_type._fields]
    for row in range(batch.num_rows):
        yield row_type(*(_value(column[row]) for column in columns))


def read_ingress(frames: Iterable[pd.DataFrame]) -> tuple[list[IngressRow], list[ControlRecord]]:
    """Return what came from the ingress: blobs in the order of the source, control records by number."""
    rows: list[Any] = [row for frame in frames for row in frame.itertuples(index=False)]
    blobs = [row for row in rows if row.cells is not None]
    blobs.sort(key=lambda blob: (blob.partition, blob.sequence))
    records = [ControlRecord.read(row.number or "", row.control) for row in rows if row.cells is None]
    records.sort(key=lambda record: record.number)
    return blobs, records


@cache
def _columns(row_type: type[NamedTuple]) -> dict[str, tuple[str, pa.DataType]]:
    return {name: _TYPES[hint] for name, hint in get_type_hints(row_type).items()}


def _array(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    if len(values) == 1 and isinstance(values[0], pa.Buffer):
        return binary(values[0])
    return pa.array([_to_bytes(value) for value in values], type)


def _to_bytes(value: Any) -> Any:
    return value.to_pybytes() if isinstance(value, pa.Buffer) else value


def _value(scalar: pa.Scalar) -> Any:
    if isinstance(scalar, pa.BinaryScalar) and not isinstance(scalar, pa.StringScalar):
        return scalar.as_buffer()  # None if it is null
    return scalar.as_py()
