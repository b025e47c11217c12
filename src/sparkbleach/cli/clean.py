"""`sparkbleach clean`: files in, clean files out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..config import check_choice
from ..errors import ConfigError
from . import options
from .failure import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..rulelog import RuleLog
    from ..spark.sources import Source
    from .checkpoint import Memory

_OUTPUT = "Output"


def clean(
    rules: options.Rules,
    input: Annotated[
        str,
        typer.Option(
            "--input",
            help="What to clean: a file, a directory, or a pattern in quotes, such as 'in/*.csv'.",
            metavar="PATH",
            rich_help_panel="Input",
            show_default=False,
        ),
    ],
    id: Annotated[
        str,
        typer.Option(
            "--id",
            help="The column with each tuple's unique id.",
            metavar="COL",
            rich_help_panel="Input",
            show_default=False,
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            help="The directory for clean rows.",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ],
    input_format: options.InputFormat = None,
    schema: options.Schema = None,
    multiline: options.Multiline = False,
    order_by: options.OrderBy = None,
    files_per_batch: Annotated[
        int | None,
        typer.Option(
            "--files-per-batch",
            help="How many files a micro-batch takes, older ones first.",
            metavar="N",
            min=1,
            rich_help_panel="Input",
            show_default="256 MB of files",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Wait for more files until Ctrl-C; files have to be moved in whole.",
            rich_help_panel="Input",
        ),
    ] = False,
    output_format: Annotated[
        options.Format | None,
        typer.Option(
            "--output-format",
            help="The format of clean rows.",
            rich_help_panel=_OUTPUT,
            show_default="that of the input",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            help="The directory that remembers what is done and what was learnt.",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
            show_default="OUTPUT-checkpoint",
        ),
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            "--audit",
            help="The directory for the audit: a row for each changed cell that says why.",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
            show_default="OUTPUT-audit",
        ),
    ] = None,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Write no audit, which is faster.", rich_help_panel=_OUTPUT)
    ] = False,
    quarantine: Annotated[
        str | None,
        typer.Option(
            "--quarantine",
            help="The directory for rows that cannot be read or have no id, with the reason; "
            "made when needed.",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
            show_default="OUTPUT-quarantine",
        ),
    ] = None,
    window: options.WindowSize = None,
    slide: options.WindowSlide = None,
    no_window: options.NoWindow = False,
    windowing: options.WindowingOption = options.Windowing.bleach,
    repair: options.RepairOption = options.Repair.by_class,
    rule_updates: options.RuleUpdates = None,
    rules_target: Annotated[
        str | None,
        typer.Option(
            "--rules-target",
            help="Where `sparkbleach rules` publishes rule updates for this stream, and it tells what became "
            "of them.",
            metavar="DIR",
            rich_help_panel="Cleaning",
            show_default=False,
        ),
    ] = None,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Clean files by rules, each row once.

    Reads all files of the input, writes the same rows cleaned, an audit that explains each changed cell, and
    bad rows aside. The same command again goes on where the last one ended, also after a crash: only new
    files are cleaned, and what was learnt from the old ones still counts.

    Example: `sparkbleach clean --rules rules.yml --input 'in/*.csv' --id id --output clean`
    """
    with told(debug=debug):
        from ..rulefile import load_rules
        from ..rulelog import open_log
        from ..spark.topology import clean as cleaned_by
        from ..spark.writer import Writer
        from .checkpoint import Checkpoint, Memory
        from .input import check_columns, open_input
        from .progress import Progress, follow_query
        from .session import spark_session

        loaded = load_rules(rules)
        updates = options.updates_of(rule_updates)
        the_window = options.window_of(window, slide, no_window)
        if no_audit and audit is not None:
            raise ConfigError("audit: --no-audit does not go with --audit; leave one out")
        log = open_log(rules_target) if rules_target else None
        places = _Places.of(
            input,
            output,
            checkpoint,
            None if no_audit else audit or f"{_bare(output)}-audit",
            quarantine,
            log,
        )
        places.check()
        with spark_session(master, debug=debug) as session:
            remembered = Checkpoint(session, places.checkpoint)
            memory = remembered.read()
            known = memory.schema if memory else None
            source = open_input(
                session,
                places.input,
                input_format,
                schema,
                known,
                multiline=multiline or bool(memory and memory.multiline),
                may_be_empty=follow,
            )
            check_columns(source, id, order_by)
            format = str(output_format or (memory.output_format if memory else source.format))
            _check_output(source, format)
            wanted = Memory(
                source.columns, id, places.output, format, source.multiline, log.target if log else None
            )
            _check_memory(session, places, memory, wanted, log)
            cleaned = cleaned_by(
                source.stream(files_per_batch),
                loaded,
                id=id,
                order_by=order_by or source.order,
                window=the_window,
                windowing=str(windowing),
                repair=str(repair),
                rule_updates=updates,
                control=log.stream(session) if log else None,
                audit=places.audit is not None,
                quarantine=True,
            )
            if memory != wanted:
                remembered.write(wanted)
            writer = Writer(places.output, format, places.audit, places.quarantine, control=log)

            def write(batch: DataFrame, batch_id: int) -> None:
                source.check_new()
                writer(batch, batch_id)

            stream = cleaned.writeStream.foreachBatch(write).option("checkpointLocation", places.checkpoint)
            if not follow:
                stream = stream.trigger(availableNow=True)
            progress = Progress()
            follow_query(stream.start(), progress, waiting=follow)
            progress.print_summary(writer, places.checkpoint)


@dataclass(frozen=True)
class _Places:
    """All paths, absolute."""

    input: str
    output: str
    checkpoint: str
    audit: str | None
    quarantine: str
    rules_target: str | None

    @classmethod
    def of(
        cls,
        input: str,
        output: str,
        checkpoint: str | None,
        audit: str | None,
        quarantine: str | None,
        log: RuleLog | None,
    ) -> _Places:
        return cls(
            options.absolute(input),
            options.absolute(output),
            options.absolute(checkpoint or f"{_bare(output)}-checkpoint"),
            options.absolute(audit) if audit else None,
            options.absolute(quarantine or f"{_bare(output)}-quarantine"),
            log.target if log else None,
        )

    def check(self) -> None:
        """Check that directories are apart from each other and can be written.

        Raises:
            ConfigError: If not.
        """
        named = {
            "output": self.output,
            "checkpoint": self.checkpoint,
            "audit": self.audit,
            "quarantine": self.quarantine,
            "rules target": self.rules_target,
        }
        seen: dict[str, str] = {}
        for name, path in named.items():
            if path is None:
                continue
            for other, taken in seen.items():
                if _within(path, taken) or _within(taken, path):
                    raise ConfigError(
                        f"{name}: {path} and {other} {taken} are in each other; keep them apart"
                    )
            if _within(path, self.input):
                raise ConfigError(
                    f"{name}: {path} is in the input {self.input}, which would read it again; "
                    "choose a directory elsewhere"
                )
            _check_writable(name, path)
            seen[name] = path


def _bare(path: str) -> str:
    return path.rstrip("/") or "/"


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{_bare(directory)}/")


def _check_writable(name: str, path: str) -> None:
    if "://" in path:
        return
    nearest = path
    while not os.path.exists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        raise ConfigError(
            f"{name}: {nearest} is a file, but {path} has to be a directory; choose another name"
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"{name}: {nearest} cannot be written; check its permissions")


def _check_output(source: Source, format: str) -> None:
    """Check that a format can hold the columns.

    Raises:
        ConfigError: If it cannot.
    """
    check_choice("output format", format, tuple(options.Format))
    if format != "csv":
        return
    for field in source.columns:
        if field.dataType.typeName() in ("array", "struct", "map", "binary", "variant"):
            raise ConfigError(
                f"output format: csv cannot hold the column {field.name!r} of type "
                f"{field.dataType.simpleString()}; "
                "choose --output-format json or parquet"
            )


def _check_memory(
    session: SparkSession, places: _Places, memory: Memory | None, wanted: Memory, log: RuleLog | None
) -> None:
    """Check that a run goes on with what earlier runs have begun.

    Raises:
        ConfigError: If it does not.
    """
    from .checkpoint import check_output_is_new

    if memory is None:
        for directory in (places.output, places.audit, places.quarantine):
            if directory is not None:
                check_output_is_new(session, directory, places.checkpoint)
        if log is not None and log.outcomes():
            raise ConfigError(
                f"rules target: {log.target} is that of another run, but the checkpoint {places.checkpoint} "
                "is new; give the checkpoint of that run to go on with it, or choose another target"
            )
        return
    for option in ("id", "output", "output_format", "rules_target"):
        was, now = getattr(memory, option) or "none", getattr(wanted, option) or "none"
        if was != now:
            raise ConfigError(
                f"{option.replace('_', ' ')}: the checkpoint {places.checkpoint} was made with {was}, "
                f"not with {now}; "
                f"go on with {was}, or begin with a new checkpoint"
            )
