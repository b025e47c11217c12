"""`sparkbleach clean`: dirty files or records in, clean ones out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from . import options
from .failure import reported_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .route import Route

_OUTPUT = "Output"


def clean(
    rules: options.Rules,
    input: Annotated[
        str,
        typer.Option(
            "--input",
            help="What to clean: a file, a directory, a pattern in quotes, such as 'in/*.csv', or a topic, "
            "such as kafka://host:port/topic.",
            metavar="PATH|TOPIC",
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
            help="The directory, or the topic, for clean rows.",
            metavar="DIR|TOPIC",
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
    records_per_batch: Annotated[
        int | None,
        typer.Option(
            "--records-per-batch",
            help="How many records of a topic a micro-batch takes.",
            metavar="N",
            min=1,
            rich_help_panel="Input",
            show_default="200000",
        ),
    ] = None,
    kafka_option: options.KafkaOption = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Wait for more until Ctrl-C; files have to be moved in whole.",
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
            help="The directory, or the topic, for the audit: a row for each changed cell that says why.",
            metavar="DIR|TOPIC",
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
            "made when needed. With Kafka a topic.",
            metavar="DIR|TOPIC",
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
            metavar="DIR|TOPIC",
            rich_help_panel="Cleaning",
            show_default=False,
        ),
    ] = None,
    lanes: options.LanesOption = 1,
    topology: options.TopologyOption = options.Topology.fused,
    detect_workers: options.DetectWorkers = None,
    repair_workers: options.RepairWorkers = None,
    coordination: options.CoordinationOption = None,
    master: options.Master = None,
    debug: options.Debug = False,
) -> None:
    """Clean files, or the records of a topic, by rules, each row once.

    Reads all files of the input, writes the same rows cleaned, an audit that explains each changed cell, and
    bad rows aside. The same command again goes on where the last one ended, also after a crash: only what is
    new is cleaned, and what was learnt before still counts.

    Example: `sparkbleach clean --rules rules.yml --input 'in/*.csv' --id id --output clean`
    """
    with reported_errors(debug=debug):
        from ..control.rule_log import open_log
        from ..paper.topology import PaperTopology
        from ..rules.file import load_rules
        from ..spark.clean import clean as cleaned_by
        from ..spark.clean import placed
        from ..spark.control import read_control
        from ..spark.settings import PARTITIONS
        from .checkpoint import Checkpoint, check_topology, lanes_of
        from .progress import Progress, follow_query
        from .session import spark_session

        loaded = load_rules(rules)
        updates = options.updates_of(rule_updates)
        the_window = options.window_of(window, slide, no_window)
        if no_audit and audit is not None:
            raise ConfigError("audit: --no-audit does not go with --audit; leave one out")
        kafka = options.kafka_options_of(kafka_option)
        log = open_log(rules_target, kafka) if rules_target else None
        route: Route
        if options.is_topic(input) or options.is_topic(output):
            from .topics import TopicRoute, check_file_options

            check_file_options(
                input_format=input_format,
                multiline=multiline,
                order_by=order_by,
                files_per_batch=files_per_batch,
                output_format=output_format,
            )
            route = TopicRoute.of(
                input,
                output,
                checkpoint,
                audit,
                quarantine,
                log,
                kafka,
                schema,
                records_per_batch,
                not no_audit,
            )
        else:
            from .files import FileRoute, Places

            options.check_no_topic(
                audit=audit,
                quarantine=quarantine,
                kafka_option=kafka_option,
                records_per_batch=records_per_batch,
            )
            default_audit = None if no_audit else audit or f"{output.rstrip('/') or '/'}-audit"
            places = Places.of(input, output, checkpoint, default_audit, quarantine, log)
            places.check()
            route = FileRoute(
                places, log, input_format, schema, multiline, order_by, files_per_batch, output_format, follow
            )
        tasks, spread = lanes, str(topology)
        spread_by = options.make_topology(
            topology,
            detect_workers=detect_workers,
            repair_workers=repair_workers,
            coordination=coordination,
        )
        if isinstance(spread_by, PaperTopology):
            tasks = max(spread_by.detect_workers, spread_by.repair_workers)
            spread += f", {spread_by.coordination}"
        settings = {**route.settings(), PARTITIONS: str(tasks)}
        with spark_session(master, debug=debug, settings=settings) as session:
            remembered = Checkpoint(session, route.checkpoint)
            memory = remembered.read()
            check_topology(memory, spread, route.checkpoint)
            opened = route.open(session, id, memory)
            given = lanes_of(memory, lanes, opened.stream.columns, route.checkpoint)
            placement = placed(opened.stream, loaded, rule_updates=updates, lanes=given)
            if lanes > 1:
                typer.echo(f"lanes       {placement}", err=True)
            cleaned = cleaned_by(
                opened.stream,
                loaded,
                id=id,
                order_by=opened.order_by,
                window=the_window,
                windowing=str(windowing),
                repair=str(repair),
                rule_updates=updates,
                control=read_control(session, log) if log else None,
                audit=not no_audit,
                quarantine=True,
                egress_partitions=opened.egress_partitions,
                lanes=placement.to_lists(),
                topology=spread_by,
            )
            writer = opened.make_writer()
            to_remember = replace(opened.memory, lanes=placement.to_lists(), topology=spread)
            if memory != to_remember:
                remembered.write(to_remember)

            def write(batch: DataFrame, batch_id: int) -> None:
                opened.check()
                writer(batch, batch_id)

            stream = cleaned.writeStream.foreachBatch(write).option("checkpointLocation", route.checkpoint)
            if not follow:
                stream = stream.trigger(availableNow=True)
            progress = Progress()
            follow_query(stream.start(), progress, waiting=follow)
            progress.print_summary(writer, route.checkpoint)
