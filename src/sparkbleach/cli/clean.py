"""`sparkbleach clean`: dirty files or records in, clean ones out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from ..kafka.topic import is_topic
from ..rules.file import load_options, load_rules
from . import options
from .clean_options import Control, Output, Spread, Stream
from .failure import reported_errors
from .groups import grouped
from .signals import exit_code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .route import Route


@grouped
def clean(
    rules: options.Rules,
    stream: Stream,
    parsing: options.Parsing,
    output: Output,
    cleaning: options.Cleaning,
    control: Control,
    spread: Spread,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Clean files, or the records of a topic, by rules; each row exactly once.

    Reads the input and writes the same rows cleaned, an audit that explains each changed cell, and a
    quarantine of rows that cannot be read. Run the same command again to go on where the last run ended, also
    after a crash: only new rows are cleaned, and earlier ones still count.

    Example: `sparkbleach clean --rules rules.yml --input 'in/*.csv' --id id --output clean`
    """
    with reported_errors(debug=debug):
        from ..spark.check import choose_options, place_attributes
        from ..spark.clean import clean as clean_rows
        from ..spark.control import read_control
        from ..spark.settings import PARTITIONS
        from .checkpoint import Checkpoint
        from .progress import Progress, Steps, follow_query
        from .session import spark_session

        loaded = load_rules(rules)
        how = cleaning.over(load_options(rules))
        chosen = choose_options(how, n_lanes=spread.lanes, topology=spread.choice)
        updates = cleaning.updates()
        output.check_audit()
        log = control.log
        route = _route(stream, parsing, output, control)
        settings = {**route.settings(), PARTITIONS: str(spread.n_tasks)}
        with Steps() as say, spark_session(master, debug=debug, settings=settings, say=say) as session:
            remembered = Checkpoint(session, route.checkpoint)
            memory = remembered.read()
            if memory is not None:
                memory.check(route.checkpoint, topology=spread.name, lanes=spread.lanes, **chosen.to_dict())
            inferred = memory is None and parsing.schema is None
            say(f"reading {'the schema of ' if inferred else ''}{stream.input}")
            with remembered.examined():
                opened = route.open(session, stream.id, memory)
            lanes = memory.lanes_among(opened.stream.columns) if memory else spread.lanes
            placement = place_attributes(opened.stream, loaded, rule_updates=updates, lanes=lanes)
            if spread.lanes > 1:
                typer.echo(f"lanes       {placement}", err=True)
            cleaned = clean_rows(
                opened.stream,
                loaded,
                id=stream.id,
                order_by=opened.order_by,
                rule_updates=updates,
                control=read_control(session, log) if log else None,
                audit=not output.no_audit,
                quarantine=True,
                egress_partitions=opened.egress_partitions,
                lanes=placement.to_lists(),
                topology=spread.choice,
                **how,
            )
            sink = opened.make_sink()
            to_remember = replace(
                opened.memory, lanes=placement.to_lists(), topology=spread.name, options=chosen.to_dict()
            )
            if memory != to_remember:
                remembered.write(to_remember)

            def write(batch: DataFrame, batch_id: int) -> None:
                opened.check()
                sink(batch, batch_id)

            query = cleaned.writeStream.foreachBatch(write).option("checkpointLocation", route.checkpoint)
            if not stream.follow:
                query = query.trigger(availableNow=True)
            progress = Progress(_first_use(chosen.repair, session), opened.trouble)
            say.end()
            with remembered.examined():
                ended_by = follow_query(query.start(), progress, waiting=stream.follow)
            opened.end()
            interrupted_by = None if stream.follow else ended_by
            progress.print_summary(sink, route.checkpoint, interrupted_by)
        if interrupted_by is not None:
            raise typer.Exit(exit_code(interrupted_by))


def _first_use(repair: str, session: SparkSession) -> str:
    """Return what the first micro-batch does beside its tuples, as far as this machine shows it."""
    from ..kernel.bayes.blocks import clean_blocks
    from ..kernel.hinged import clean_hinged
    from ..kernel.jit import is_compiled
    from ..kernel.solo import clean_solo

    entries = (clean_blocks,) if repair == "bayes" else (clean_hinged, clean_solo)
    local = str(session.sparkContext.master).startswith("local")
    if not local or any(map(is_compiled, entries)):
        return ""
    return "which compiles the kernel (a minute or two, the first time only)"


def _route(stream: Stream, parsing: options.Parsing, output: Output, control: Control) -> Route:
    """Return the way from topic to topic, or from files to files, that options name."""
    if is_topic(stream.input) or is_topic(output.output):
        from .topics import TopicRoute

        return TopicRoute.from_options(stream, parsing, output, control)
    from .files import FileRoute

    return FileRoute.from_options(stream, parsing, output, control)
