"""What the package uses of Spark beyond its public API is still there, and does what it did."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from sparkbleach.errors import SparkbleachError
from sparkbleach.spark import compat
from sparkbleach.spark.hadoop import Entry, FileSystem, without_scheme
from sparkbleach.spark.settings import SPARK_SETTINGS


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pyspark.sql.pandas.types", "from_arrow_type"),
        ("pyspark.sql.pandas.types", "from_arrow_schema"),
        ("pyspark.sql.pandas.types", "to_arrow_schema"),
        ("pyspark.java_gateway", "launch_gateway"),
    ],
)
def test_private_functions_are_where_they_were(module: str, name: str) -> None:
    """Each private function of PySpark that the package calls is there; the error names one that is not."""
    assert callable(compat.private(module, name))


@pytest.mark.parametrize("name", ["_gateway", "_ensure_initialized"])
def test_private_members_of_the_context_are_where_they_were(name: str) -> None:
    """`compat.launch_jvm` finds what it needs of `SparkContext`."""
    assert hasattr(compat.private("pyspark", "SparkContext"), name), compat.moved(f"SparkContext.{name}")


@pytest.mark.parametrize("name", ["_jvm", "_jsparkSession"])
def test_private_members_of_the_session_are_where_they_were(spark: SparkSession, name: str) -> None:
    """`hadoop.FileSystem` finds what it needs of `SparkSession`."""
    assert hasattr(spark, name), compat.moved(f"SparkSession.{name}")


def test_all_that_is_private_is_collected() -> None:
    """No other file of the package uses what is private of PySpark."""
    private = re.compile(r"\b_(jvm|jsc|jdf|jsparkSession|gateway)\b|pyspark\.sql\.pandas|java_gateway|py4j")
    package = Path(compat.__file__).parents[1]
    users = {path.name for path in package.rglob("*.py") if private.search(path.read_text())}
    assert users == {"compat.py", "hadoop.py"}


def test_something_moved_is_named() -> None:
    """The error names what PySpark moved and the file to look at."""
    with pytest.raises(SparkbleachError, match=r"moved pyspark.sql.gone.nothing; see spark/compat.py"):
        compat.private("pyspark.sql.gone", "nothing")
    with pytest.raises(SparkbleachError, match=r"moved pyspark.sql.types.nothing; see"):
        compat.private("pyspark.sql.types", "nothing")


def test_a_session_without_a_jvm_is_named() -> None:
    """The error names the attributes by which a session gives its JVM."""
    with pytest.raises(SparkbleachError, match=r"moved SparkSession._jvm or SparkSession._jsparkSession"):
        FileSystem(object(), "here")  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", [name for name in SPARK_SETTINGS if name.endswith("Class")])
def test_classes_in_settings_exist(spark: SparkSession, setting: str) -> None:
    """Spark has the classes that settings name."""
    name = str(SPARK_SETTINGS[setting])
    loader = spark._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]
    assert loader.classIsLoadable(name), f"Spark moved {name}; see spark/settings.py"


def test_schemas_survive_arrow(spark: SparkSession) -> None:
    """A schema is the same after a way through Arrow, and times are in UTC."""
    schema = spark.createDataFrame([], "a int, b string, c decimal(5,2), d timestamp, e array<long>").schema
    there = compat.arrow_schema(schema)
    assert there.field("d").type == pa.timestamp("us", tz="UTC")
    assert compat.spark_schema(there) == schema
    assert compat.spark_type(there.field("c").type) == DecimalType(5, 2)


def test_the_hash_is_that_of_spark(spark: SparkSession) -> None:
    """`spark_hash` gives what Spark gives, for all kinds of ints."""
    ints = [0, 1, -1, 42, 2**31 - 1, -(2**31), *range(-(2**31), 2**31, 21_474_837)]
    rows = spark.createDataFrame([(key,) for key in ints], "key int").select("key", F.hash("key"))
    for key, found in rows.collect():
        assert compat.spark_hash(key) == found, f"Spark's hash is another one; see spark/compat.py: {key}"


def test_error_messages_are_one_line(spark: SparkSession) -> None:
    """Of a JVM error the first line is shown, without the name of the error class."""
    with pytest.raises(compat.JVM_ERRORS) as caught:
        StructType.fromDDL("a nonsense")
    assert compat.error_message(caught.value).startswith("Unsupported data type")
    with pytest.raises(compat.JVM_ERRORS) as caught:
        FileSystem(spark, "nowhere://a/b")
    assert compat.error_message(caught.value) == 'No FileSystem for scheme "nowhere"'


def test_a_file_is_written_whole(spark: SparkSession, tmp_path: Path) -> None:
    """A file takes the place of another one, also where plain renaming refuses it, and nothing is left."""
    path = str(tmp_path / "memory.json")
    files = FileSystem(spark, path)
    for data in (b"one", b"another"):
        files.write(path, data)
        assert files.read(path) == data
    (tmp_path / "new").write_bytes(b"third")
    files._replace(files._path(str(tmp_path / "new")), files._path(path))
    assert files.read(path) == b"third"
    assert [found.name for found in tmp_path.iterdir()] == ["memory.json"]


def test_files_are_listed(spark: SparkSession, tmp_path: Path) -> None:
    """Files are found by path, in directories and by pattern; Spark's hidden ones are left out."""
    for name in ("b.csv", "a [1].csv", "_hidden", ".hidden", "sub/c.csv", "sub/_temporary/d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    files = FileSystem(spark, str(tmp_path))

    def below(pattern: str) -> list[str]:
        return sorted(str(Path(str(file)).relative_to(tmp_path)) for file in files.walk(pattern))

    assert below(str(tmp_path)) == ["a [1].csv", "b.csv", "sub/c.csv"]
    assert below(f"{tmp_path}/a [1].csv") == ["a [1].csv"]
    assert below(f"{tmp_path}/*.csv") == ["a [1].csv", "b.csv"]
    assert below(f"{tmp_path}/nothing*") == []
    visible = [without_scheme(path) for path in files.paths(str(tmp_path))]
    assert sorted(visible) == [f"{tmp_path}/{name}" for name in ("a [1].csv", "b.csv", "sub")]
    assert [entry.name for entry in files.children(str(tmp_path), "*.csv")] == ["a [1].csv", "b.csv"]
    assert len(files.children(str(tmp_path))) == 5
    assert files.children(f"{tmp_path}/nothing") == []
    assert files.find(f"{tmp_path}/nothing") is None
    modified_ms = (tmp_path / "b.csv").stat().st_mtime_ns // 1_000_000
    assert files.find(f"{tmp_path}/b.csv") == Entry(f"file:{tmp_path}/b.csv", 5, modified_ms=modified_ms)
    sub = files.find(f"{tmp_path}/sub")
    assert sub is not None
    assert sub.is_directory


def test_files_are_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    """A file is read from its beginning, decompressed if asked, or from its end, moved and deleted."""
    files = FileSystem(spark, str(tmp_path))
    path = f"{tmp_path}/x.gz"
    files.write(path, gzip.compress(b"hello"))
    assert files.read(path, 3, decompress=True) == b"hel"
    assert gzip.decompress(files.read(path)) == b"hello"
    found = files.find(path)
    assert found is not None
    assert files.read_end(found, 4) == (5).to_bytes(4, "little")
    assert files.rename(path, f"{tmp_path}/y")
    assert (tmp_path / "y").exists()
    assert not (tmp_path / ".y.crc").exists()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").touch()
    files.delete(f"{tmp_path}/sub")
    assert not (tmp_path / "sub").exists()
