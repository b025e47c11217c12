"""`sparkbleach explain`: why the cells of a tuple were changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError
from ..kafka.topic import is_topic
from . import options
from .failure import reported_errors
from .groups import grouped
from .reasons import in_words

if TYPE_CHECKING:
    import duckdb


@grouped
def explain(
    id: Annotated[str, typer.Argument(help="The id of the tuple.")],
    audit: Annotated[
        str,
        typer.Option(
            help="The directory, or the topic, with the audit that clean has written.", metavar="DIR|TOPIC"
        ),
    ],
    kafka: options.Kafka,
    debug: options.Debug = False,
) -> None:
    """Explain why the cells of a tuple were changed: the rules they broke, and the candidates.

    Each candidate is shown with its count; or, if the most probable one was chosen, with its score and all
    the amounts that add up to it.

    Reads what `clean` has left in its audit directory (OUTPUT-audit by default);
    Spark is not needed.

    Example: `sparkbleach explain 3 --audit clean-audit`
    """
    with reported_errors(debug=debug):
        rows = read_audit_topic(audit, id, kafka.kafka) if is_topic(audit) else read_audit(Path(audit), id)
        if not rows:
            typer.echo(
                f"the audit has no tuple {id}: none of its cells was changed, or there is no such tuple"
            )
            return
        for number, row in enumerate(rows):
            if number:
                typer.echo()
            for line in in_words(row, rows):
                typer.echo(line)


def read_audit(directory: Path, id: str) -> list[dict[str, Any]]:
    """Return the audit rows of a tuple, by position and then as they were written."""
    import duckdb

    if not directory.is_dir():
        raise ConfigError(
            f"audit: {directory} is not a directory; give the one that clean has written its audit to"
        )
    files: dict[str, list[str]] = {}
    for name in sorted(os.listdir(directory)):
        if name.startswith("part-"):
            files.setdefault(os.path.splitext(name)[1], []).append(str(directory / name))
    readers = {
        ".parquet": "read_parquet($files)",
        ".json": "read_json($files, format = 'newline_delimited', columns = $columns)",
    }
    if not set(files) & set(readers):
        raise ConfigError(
            f"audit: {directory} has no part files; "
            "either nothing was repaired, or clean has written its audit elsewhere"
        )
    rows: list[dict[str, Any]] = []
    with duckdb.connect() as connection:
        for ending, reader in readers.items():
            if ending not in files:
                continue
            values: dict[str, Any] = {"files": files[ending], "id": id}
            if ending == ".json":
                values["columns"] = _json_columns(connection)
            query = f"SELECT * REPLACE (id::VARCHAR AS id) FROM {reader} WHERE id::VARCHAR = $id"  # noqa: S608
            try:
                found = connection.execute(query, values)
                names = [column[0] for column in found.description or ()]
                rows += [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            except duckdb.Error as error:
                problem = str(error).splitlines()[0]
                raise ConfigError(
                    f"audit: {directory} is not an audit that clean has written ({problem}); check the path"
                ) from error
    return sorted(rows, key=_by_order)


def _json_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the columns of an audit, as DuckDB has to read them from JSON; the id is compared as text."""
    import pyarrow as pa

    from ..engine.audit import audit_schema

    audit = connection.from_arrow(audit_schema(pa.string(), "bayes").empty_table())
    return dict(zip(audit.columns, map(str, audit.types), strict=True))


def read_audit_topic(address: str, id: str, kafka: dict[str, str]) -> list[dict[str, Any]]:
    """Return the audit rows of a tuple that a topic has, by position and then as they were written."""
    from ..kafka.client import check_exists, read
    from ..kafka.topic import Topic

    topic = Topic.parse(address, kafka)
    check_exists(topic)
    rows = [json.loads(record.value or b"{}") for record in read(topic)]
    return sorted((row for row in rows if str(row.get("id")) == id), key=_by_order)


def _by_order(row: dict[str, Any]) -> tuple[int, int]:
    """Return where a row comes: by position, and then in the order in which cells were read anew."""
    return int(row["position"]), int(row.get("step") or 0)
