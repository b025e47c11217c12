"""Jars come from a repository once, with their checksums compared; which repository, the user says."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest

from sparkbleach.errors import DownloadError
from sparkbleach.kafka import jars

SPARK = "org/apache/spark"
CONNECTOR, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><dependencies>
<dependency><groupId>org.apache.spark</groupId><artifactId>{tokens}</artifactId><version>{version}</version>
<scope>compile</scope></dependency>
<dependency><groupId>org.apache.spark</groupId><artifactId>{tokens}</artifactId><version>{version}</version>
<type>test-jar</type><scope>test</scope></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>3.9.2</version>
</dependency>
<dependency><groupId>org.apache.commons</groupId><artifactId>commons-pool2</artifactId><version>2.13</version>
<scope>compile</scope></dependency></dependencies></project>"""


class Repository:
    """A Maven repository on this machine."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                data = repository.files.get(self.path)
                self.send_response(404 if data is None else 200)
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/maven"

    def add_jar(self, group: str, name: str, its_version: str) -> None:
        """Add a jar and its checksum."""
        data = f"{name} {its_version}".encode()
        path = f"/maven/{group}/{name}/{its_version}/{name}-{its_version}.jar"
        self.files[path] = data
        self.files[f"{path}.sha1"] = hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()

    def list_versions(self, name: str, *versions: str) -> None:
        """Say which versions there are."""
        listed = "".join(f"<version>{one}</version>" for one in versions)
        text = f"<metadata><versioning><versions>{listed}</versions></versioning></metadata>"
        self.files[f"/maven/{SPARK}/{name}/maven-metadata.xml"] = text.encode()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository with a connector, and an empty cache."""
    made = Repository()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", made.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("sparkbleach.kafka.jars.time.sleep", lambda _: None)
    monkeypatch.setattr(jars, "version", lambda _: "4.3.0")
    made.list_versions(CONNECTOR, "3.5.9", "4.1.3", "4.2.0", "4.3.0-preview1", "4.3.1", "5.0.0")
    made.list_versions(TOKENS, "4.0.0", "4.1.0-preview1")
    made.add_jar(SPARK, CONNECTOR, "4.2.0")
    pom = POM.format(tokens=TOKENS, version="4.2.0").encode()
    made.files[f"/maven/{SPARK}/{CONNECTOR}/4.2.0/{CONNECTOR}-4.2.0.pom"] = pom
    made.add_jar(SPARK, TOKENS, "4.0.0")
    made.add_jar("org/apache/kafka", "kafka-clients", "3.9.2")
    made.add_jar("org/apache/commons", "commons-pool2", "2.13")
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_the_newest_fitting_connector_is_fetched_once(repository: Repository, tmp_path: Path) -> None:
    """It is the newest release that is not newer than PySpark; the second time nothing is asked for."""
    lines: list[str] = []
    found = jars.connector_jars(lines.append)
    assert [path.name for path in found] == [
        f"{CONNECTOR}-4.2.0.jar",
        f"{TOKENS}-4.0.0.jar",
        "kafka-clients-3.9.2.jar",
        "commons-pool2-2.13.jar",
    ]
    assert lines == ["fetching Spark's Kafka connector 4.2.0, the newest one for PySpark 4.3.0 ..."]
    assert found[0].read_bytes() == f"{CONNECTOR} 4.2.0".encode()
    assert all(path.is_relative_to(tmp_path / "cache" / "sparkbleach" / "jars") for path in found)
    repository.asked.clear()
    assert jars.connector_jars(lines.append) == found
    assert jars.spark_jars() == ",".join(path.as_uri() for path in found)
    assert (repository.asked, len(lines)) == ([], 1)


def test_a_damaged_jar_is_refused(repository: Repository, tmp_path: Path) -> None:
    """What does not have its checksum is not kept."""
    path = f"/maven/{SPARK}/{CONNECTOR}/4.2.0/{CONNECTOR}-4.2.0.jar"
    repository.files[path] += b"!"
    with pytest.raises(DownloadError, match="has the checksum"):
        jars.connector_jars()
    assert not list((tmp_path / "cache").rglob(f"{CONNECTOR}*.jar"))


def test_a_failed_download_is_reported(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing jar, a repository that is not there, no fitting version: each is lines with a remedy."""
    del repository.files["/maven/org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar"]
    with pytest.raises(DownloadError, match=r"kafka-clients-3\.9\.2\.jar: cannot be fetched .*404"):
        jars.connector_jars()
    with pytest.raises(DownloadError, match="check the network"):
        jars.broker_jars()
    monkeypatch.setattr(jars, "version", lambda _: "2.4.0")
    with pytest.raises(DownloadError, match=r"of version 2\.4\.0 or of an older 2\.x"):
        jars.connector_jars()
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", "http://127.0.0.1:1")
    with pytest.raises(DownloadError, match="give another repository"):
        jars.connector_jars()


def test_the_mirror_of_maven_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SPARKBLEACH_MAVEN_URL the mirror of central in Maven's settings counts, else Maven Central."""
    monkeypatch.delenv("SPARKBLEACH_MAVEN_URL", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert jars.repository() == "https://repo1.maven.org/maven2"
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    mirror = "<mirror><mirrorOf>{}</mirrorOf><url>{}</url></mirror>"
    mirrors = mirror.format("*,!central", "http://a") + mirror.format("central", "http://b/maven/")
    space = 'xmlns="http://maven.apache.org/SETTINGS/1.0.0"'
    settings.write_text(f"<settings {space}><mirrors>{mirrors}</mirrors></settings>")
    assert jars.repository() == "http://b/maven"
    settings.write_text("<settings")
    assert jars.repository() == "https://repo1.maven.org/maven2"
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", "http://c/")
    assert jars.repository() == "http://c"


def test_the_connector_of_this_environment(connector: str | None) -> None:
    """The connector that the tests run with is of the major version of PySpark."""
    if connector is None:
        pytest.skip("Kafka: its jars are not in the cache, and Maven Central cannot be reached")
    assert f"{CONNECTOR}-{version('pyspark').partition('.')[0]}." in connector
