"""The rule log: rule updates on their way to a running stream, and what became of them.

A control record is an update that somebody published. The stream reads it, applies or refuses it, and
writes an outcome back. A log is one stream's: it is read and written with one checkpoint.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigError, RuleError, SparkbleachError
from ..rules.update import RuleUpdate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OUTCOMES = "_outcomes"  # Spark's file source reads nothing below a name that begins with _
_NUMBER = re.compile(r"(\d{8})\.json")
_TEXT_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """An update that was published, or a record that is none.

    Attributes:
        number: Names the record in its log; later ones are greater.
        update: The update; None if the record cannot be read as one.
        problem: Why it cannot.
        by: Who published it, if it says so.
        published: When, as ISO 8601 has it.
    """

    number: str
    update: RuleUpdate | None
    problem: str | None = None
    by: str | None = None
    published: str | None = None

    @classmethod
    def read(cls, number: str, text: str | None) -> ControlRecord:
        """Return what a record says; one that makes no sense becomes one with a problem."""
        by = published = None
        try:
            data = json.loads(text or "")
            if not isinstance(data, dict):
                raise RuleError(  # noqa: TRY301
                    f"control record: {_short(text)} is not an object; "
                    'write one such as {"op": "delete", "id": "r5"}'
                )
            by, published = (_text(data.pop(key, None)) for key in ("by", "published"))
            update = RuleUpdate.from_dict(data)
            if update.at is not None:
                raise RuleError(  # noqa: TRY301
                    "control record, at: it takes effect when it is read; leave at out, "
                    "or give the update to rule_updates"
                )
        except RuleError as error:
            return cls(number, None, str(error), by, published)
        except (ValueError, TypeError, RecursionError) as error:
            problem = f"control record: {_short(text)} cannot be read ({error}); write one JSON object"
            return cls(number, None, problem, by, published)
        return cls(number, update, None, by, published)


def record_text(update: RuleUpdate, by: str) -> str:
    """Return the text of a control record that is published now."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return json.dumps({**update.to_dict(), "by": by, "published": now}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a control record, or with which rules a stream has started.

    Attributes:
        index: Its place among the outcomes of its micro-batch.
        kind: `applied`, `refused`, or `started`: a stream begins, or goes on with other rules or columns.
        position: Where the next tuple was in the stream.
        version: Of the rule set, afterwards.
        rules: All rules in force afterwards, as dictionaries.
        schema: The schema of the stream: Arrow's serialised form in base 64.
        columns: The columns that a rule may read.
        id: The id column, which no rule may change.
        number: The number of the control record; None for rules that came another way.
        update: The update, as a dictionary; None if the record could not be read, or for `started`.
        reason: Why it was refused.
        by: Who published it.
        published: When.
    """

    index: int
    kind: str
    position: int
    version: int
    rules: list[dict[str, Any]]
    schema: str
    columns: list[str]
    id: str
    number: str | None = None
    update: dict[str, Any] | None = None
    reason: str | None = None
    by: str | None = None
    published: str | None = None

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Return the outcome that `to_json` wrote."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return it as a line of text."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        if self.kind == "started":
            n_rules = f"{len(self.rules)} {'rule' if len(self.rules) == 1 else 'rules'}"
            return f"started with {n_rules} at position {self.position:,}, version {self.version}"
        what = str(RuleUpdate.from_dict(self.update)) if self.update else f"record {self.number}"
        if self.kind == "refused":
            return f"refused: {what}: {self.reason}"
        return f"applied: {what}; in force from position {self.position:,} on, version {self.version}"


class RuleLog(Protocol):
    """Where control records and outcomes are kept."""

    @property
    def target(self) -> str:
        """What `open_log` opens it by."""

    def publish(self, update: RuleUpdate, by: str) -> str:
        """Append an update for the stream to read; return its number."""

    def published(self) -> list[ControlRecord]:
        """Return all control records, by number."""

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes in the order in which they came about."""

    def record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a micro-batch, instead of those that an earlier attempt of it left."""

    def stream(self, session: SparkSession) -> DataFrame:
        """Return the control records as a streaming DataFrame with the columns `number` and `value`."""


def open_log(target: str, options: Mapping[str, str] | None = None) -> RuleLog:
    """Return the log at a target: a directory, or a topic such as `kafka://host:port/topic`.

    Args:
        target: The target.
        options: What Kafka's clients have to know to connect.

    Raises:
        ConfigError: If there can be no log there.
    """
    scheme, separator, path = target.partition("://")
    if not separator:
        return DirectoryLog(target)
    if scheme == "file":
        return DirectoryLog(path)
    if scheme == "kafka":
        from ..kafka.rule_log import TopicLog
        from ..kafka.topic import Topic

        return TopicLog(Topic.parse(target, options))
    raise ConfigError(
        f"rules target: {target!r} has the unknown scheme {scheme!r}; "
        "give a directory, or a topic such as kafka://host:port/topic"
    )


class DirectoryLog:
    """A rule log in a directory: a file for each control record, and the outcomes in `_outcomes`.

    Args:
        directory: The directory, on a file system that all processes see; it is made when needed.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(os.path.abspath(directory))
        if self._directory.exists() and not self._directory.is_dir():
            raise ConfigError(f"rules target: {directory} is a file; choose a directory")

    @property
    def target(self) -> str:
        """The directory."""
        return str(self._directory)

    def publish(self, update: RuleUpdate, by: str) -> str:
        """Append an update for the stream to read; return its number.

        Raises:
            SparkbleachError: If the directory cannot be written.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            written = _written(self._directory, record_text(update, by) + "\n")
            try:
                return self._link(written)
            finally:
                written.unlink()
        except OSError as error:
            raise self._unwritable(error) from error

    def _link(self, written: Path) -> str:
        """Give a file the next free number; of two processes that want the same one, one goes on trying."""
        number = max((int(name) for name in self._numbers()), default=0) + 1
        while True:
            try:
                os.link(written, self._directory / f"{number:08}.json")
            except FileExistsError:
                number += 1
            else:
                return f"{number:08}"

    def published(self) -> list[ControlRecord]:
        """Return all control records, by number."""
        return [
            ControlRecord.read(number, (self._directory / f"{number}.json").read_text("utf-8", "replace"))
            for number in self._numbers()
        ]

    def outcomes(self) -> list[Outcome]:
        """Return all outcomes in the order in which they came about."""
        found: list[Outcome] = []
        for path in sorted((self._directory / _OUTCOMES).glob("batch-*.jsonl")):
            with contextlib.suppress(FileNotFoundError):  # a micro-batch that runs again has taken it back
                found += map(Outcome.from_json, path.read_text("utf-8").splitlines())
        return found

    def record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a micro-batch, instead of those that an earlier attempt of it left.

        Raises:
            SparkbleachError: If the directory cannot be written.
        """
        path = self._directory / _OUTCOMES / f"batch-{batch_id:012}.jsonl"
        try:
            if outcomes:
                path.parent.mkdir(parents=True, exist_ok=True)
                _written(path.parent, "".join(f"{outcome.to_json()}\n" for outcome in outcomes)).replace(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def stream(self, session: SparkSession) -> DataFrame:
        """Return the control records as a streaming DataFrame with the columns `number` and `value`."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        reader = session.readStream.format("text").option("wholetext", True)
        # A record that comes while the stream is down for long must not be left out.
        reader = reader.options(pathGlobFilter="*.json", maxFileAge="36500d")
        name = "substring_index(_metadata.file_name, '.', 1)"
        return reader.load(self._directory.as_uri()).selectExpr(f"{name} AS number", "value")

    def _numbers(self) -> list[str]:
        if not self._directory.is_dir():
            return []
        return sorted(match[1] for name in os.listdir(self._directory) if (match := _NUMBER.fullmatch(name)))

    def _unwritable(self, error: OSError) -> SparkbleachError:
        return SparkbleachError(
            f"rules target: {self._directory} cannot be written ({error.strerror}); "
            "check its permissions and free space"
        )


def _written(directory: Path, text: str) -> Path:
    """Write a text to a file that nobody looks at yet."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=directory, prefix=".", suffix=".new", delete=False
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)  # the stream may run as another user
    return Path(file.name)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _short(text: str | None) -> str:
    text = text or ""
    return repr(text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}…")
