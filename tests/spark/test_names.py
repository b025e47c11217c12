"""Columns of the data may not have names of columns that cleaning adds."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from sparkbleach import ConfigError
from sparkbleach.kafka.source import KAFKA, _check_names
from sparkbleach.spark.check import check_names
from sparkbleach.spark.files.quarantine import TEXT_FORMAT
from sparkbleach.spark.files.record_text import RECORD
from sparkbleach.spark.plan import CONTROL, QUARANTINE, REPAIRS

ADDED = (REPAIRS, QUARANTINE, CONTROL, RECORD)


def frame(schema: StructType) -> Any:
    """Return what a check sees of a DataFrame."""
    return SimpleNamespace(schema=schema)


@pytest.mark.parametrize("name", [*ADDED, *map(str.title, ADDED)])
def test_added_columns_have_names_of_their_own(name: str) -> None:
    """`clean` refuses a column that is called like one that it adds, whatever its case."""
    schema = StructType().add("id", LongType()).add(name, StringType())
    problem = f"schema: {name!r} is a name of a column that is added to clean rows; rename the column"
    with pytest.raises(ConfigError, match=f"^{re.escape(problem)}$"):
        check_names(frame(schema))


def test_the_text_of_a_record_has_its_name() -> None:
    """The column that a source adds for the text of a record is no such column; usual names are none."""
    schema = StructType().add("repairs", LongType()).add("_record_", StringType())
    check_names(frame(schema.add(RECORD, StringType(), metadata={TEXT_FORMAT: "csv"})))


@pytest.mark.parametrize("name", [*ADDED, KAFKA, "_Kafka", "_corrupt_record", "ID"])
def test_members_of_a_topic_have_names_of_their_own(name: str) -> None:
    """A member may have no name of a column that is added, and none twice."""
    schema = StructType().add("id", LongType()).add(name, StringType())
    problem = f"schema: the name {name!r} is reserved or used twice (case is ignored); rename the column"
    with pytest.raises(ConfigError, match=f"^{re.escape(problem)}$"):
        _check_names(schema, "id", "_corrupt_record")
    _check_names(StructType().add("id", LongType()).add("_repair", StringType()), "id", "_corrupt_record")


def test_the_id_of_a_topic_is_a_member() -> None:
    """The id must be in the schema; the error lists the columns to choose from."""
    schema = StructType().add("key", LongType()).add("city", StringType())
    with pytest.raises(ConfigError, match=r"^id: the schema has no column 'id'; choose one of key, city$"):
        _check_names(schema, "id", "_corrupt_record")
