"""The records of text files that may go over several lines: CSV records, and JSON documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from ...errors import SparkbleachError

_BOM = b"\xef\xbb\xbf"
#: what makes a line a blank one, as in files that are read line by line
_BLANK = bytes(range(33))
_OPEN_CELL = rb'"[^"]*+(?:""[^"]*+)*+'
#: lines that end within quotes
_OPEN_LINES = re.compile(rb'(?:(?:%b"[^,]*+|(?!")[^,]*+),)*+%b\Z' % (_OPEN_CELL, _OPEN_CELL))
_GAP = re.compile(rb"[ \t\r\n]*+")
_COMMA = re.compile(rb",[ \t\r\n]*+")
_EMPTY_LIST = re.compile(rb"\[[ \t\r\n]*+\]")
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_SCALAR = re.compile(rb'%b|[^\s,"\[\]{}]++' % _STRING, re.DOTALL)
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|%b)*+[\[\]{}]' % _STRING, re.DOTALL)
_LINE_BREAK = re.compile(rb"(%b)|[\r\n][ \t\r\n]*+" % _STRING, re.DOTALL)


def keep_files_whole(session: SparkSession) -> None:
    """Have Spark read all files of a micro-batch in one task, each from its beginning to its end."""
    session.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 50))
    session.conf.set("spark.sql.files.minPartitionNum", "1")


def csv_records(line: Column, path: Column, start: Column) -> Column:
    """Return the CSV records of lines: the text of a record beside its last line, null beside all others.

    Args:
        line: The line, as bytes without the newline that ends it; those of a file follow each other.
        path: The path of its file.
        start: Where in the file the part begins that Spark reads.
    """

    def joined(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return joined_lines(tuple(column.to_pylist() for column in batch) for batch in batches)

    joined.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    texts = F.arrow_udf(joined, "binary")  # type: ignore[attr-defined, unused-ignore]
    # Spark may run what is deterministic twice, and then on some of the lines only.
    found: Column = texts.asNondeterministic()(line, path, start)
    return found


def joined_lines(batches: Iterable[tuple[list[bytes], list[str], list[int]]]) -> Iterator[pa.Array]:
    """Yield for each batch of lines, paths and starts the records that end in it."""
    lines = _CsvLines()
    path: str | None = None
    held: list[bytes | None] = []
    for batch in batches:
        texts: list[bytes | None] = []
        for line, now, start in zip(*batch, strict=True):
            if start:
                raise SparkbleachError(f"{now}: Spark reads it in parts, and a record may be in two of them")
            if now != path:
                _put_last(lines, texts or held)
                lines, path = _CsvLines(), now
            texts.append(lines.take(line))
        if held:
            yield pa.array(held, pa.binary())
        held = texts
    _put_last(lines, held)
    if held:
        yield pa.array(held, pa.binary())


def _put_last(lines: _CsvLines, texts: list[bytes | None]) -> None:
    """Put the text of a record that does not end beside the last line of its file."""
    text = lines.end()
    if text is not None:
        texts[-1] = text


class _CsvLines:
    """The lines of a CSV file, one after another."""

    def __init__(self) -> None:
        self._open: list[bytes] = []
        self._is_header = True

    def take(self, line: bytes) -> bytes | None:
        """Take a line and return the record that it ends; None if it ends none, and for the header."""
        if self._is_header:
            self._is_header = not line.removeprefix(_BOM).strip(_BLANK)
            return None
        if not self._open and not line.strip(_BLANK):
            return None
        if b'"' in line or self._open:
            is_open = _OPEN_LINES.match(b'"' + line if self._open else line)
            self._open.append(line)
            if is_open:
                return None
            line = b"\n".join(self._open)
            self._open = []
        return line.removesuffix(b"\r")

    def end(self) -> bytes | None:
        """Return the rest of a file that ends within quotes."""
        return b"\n".join(self._open) if self._open else None


def documents(data: Column) -> Column:
    """Return the values of JSON documents, which are given as bytes, as lists of texts."""

    def split(files: pa.Array) -> pa.Array:
        found = (json_records(file.as_buffer().to_pybytes()) for file in files)
        return pa.array(found, pa.list_(pa.binary()))

    split.__annotations__ = {"files": pa.Array, "return": pa.Array}
    texts = F.arrow_udf(split, "array<binary>")  # type: ignore[attr-defined, unused-ignore]
    found: Column = texts.asNondeterministic()(data)  # else Spark splits each file twice
    return found


def json_records(data: bytes) -> list[bytes]:
    """Return the values of a JSON document: the members of a list, or the only one, each on one line.

    A document that is neither is returned as it is. The values are found by their brackets only: each of them
    may be no valid JSON.
    """
    data = data.removeprefix(_BOM)
    try:
        return [_on_one_line(data[begin:end]) for begin, end in _values(data)]
    except ValueError:
        return [data]


def _values(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the values of a document begin and end."""
    at = _after(_GAP, data, 0)
    if at == len(data):
        return
    if data[at : at + 1] != b"[":
        end = _value_end(data, at)
        yield at, end
    elif empty := _EMPTY_LIST.match(data, at):
        end = empty.end()
    else:
        begin = _after(_GAP, data, at + 1)
        while True:
            end = _value_end(data, begin)
            yield begin, end
            end = _after(_GAP, data, end)
            if data[end : end + 1] == b"]":
                break
            begin = _after(_COMMA, data, end)
        end += 1
    if _after(_GAP, data, end) < len(data):
        raise ValueError("text after the document")


def _value_end(data: bytes, begin: int) -> int:
    if data[begin : begin + 1] not in (b"{", b"["):
        return _after(_SCALAR, data, begin)
    depth, at = 0, begin
    while True:
        at = _after(_TO_BRACKET, data, at)
        depth += 1 if data[at - 1 : at] in (b"{", b"[") else -1
        if depth == 0:
            return at


def _after(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    if found is None:
        raise ValueError(f"no value at byte {at + 1}")
    return found.end()


def _on_one_line(value: bytes) -> bytes:
    """Return a JSON value without the line breaks, and what indents the lines, outside of its texts."""
    return _LINE_BREAK.sub(rb"\1", value) if b"\n" in value or b"\r" in value else value
