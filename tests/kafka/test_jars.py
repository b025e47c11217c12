"""Jars come from a repository once, with their checksums compared; which repository, the user says."""

from __future__ import annotations

import hashlib
import resource
import signal
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest

from sparkbleach.errors import DownloadError
from sparkbleach.kafka import jars

SPARK = "org.apache.spark"
CONNECTOR, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
CLIENTS = "org.apache.kafka:kafka-clients"


class Repository:
    """A Maven repository on this machine, with a certificate of its own."""

    def __init__(self, directory: Path) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.leads_to = ""  #: where requests by https are sent, if anywhere
        self.certificate = directory / "certificate.pem"
        key = directory / "key.pem"
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key}"
        command += f" -out {self.certificate} -addext subjectAltName=DNS:localhost"
        subprocess.run(command.split(), check=True, capture_output=True)  # noqa: S603
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                data = repository.files.get(self.path)
                is_led = bool(repository.leads_to) and isinstance(self.connection, ssl.SSLSocket)
                self.send_response(302 if is_led else 404 if data is None else 200)
                if is_led:
                    self.send_header("Location", repository.leads_to + self.path)
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}/maven"
        self.plain = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def add_jar(self, coordinates: str) -> str:
        """Add a jar; return its line in a list of jars."""
        data = f"content of {coordinates}".encode()
        artifact = jars.Artifact(hashlib.sha256(data).hexdigest(), *coordinates.split(":"))
        self.files[f"/maven/{artifact.path}"] = data
        return f"{artifact.sha256}  {artifact}\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository with connectors, a list that has them, and an empty cache."""
    made = Repository(tmp_path)
    servers = (made.server, made.plain)
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", made.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    monkeypatch.setattr(urllib.request, "_opener", None)  # it may have read other certificates
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("sparkbleach.kafka.jars.time.sleep", lambda _: None)
    monkeypatch.setattr(jars, "version", lambda _: "4.3.0")
    listed = "# a comment\n"
    for one in ("3.5.9", "4.1.3", "4.2.0", "4.3.1", "5.0.0"):
        listed += "\n" + made.add_jar(f"{SPARK}:{CONNECTOR}:{one}") + made.add_jar(f"{SPARK}:{TOKENS}:4.0.0")
        listed += made.add_jar(f"{CLIENTS}:3.9.2")
    monkeypatch.setattr(jars, "_CONNECTOR", tmp_path / "connector-jars.txt")
    jars._CONNECTOR.write_text(listed)
    yield made
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()
    urllib.request._opener = None  # type: ignore[attr-defined]


def test_the_newest_fitting_connector_is_fetched_once(repository: Repository, tmp_path: Path) -> None:
    """It is the newest release that is not newer than PySpark; the second time nothing is asked for."""
    lines: list[str] = []
    found = jars.connector_jars(lines.append)
    names = [f"{CONNECTOR}-4.2.0.jar", f"{TOKENS}-4.0.0.jar", "kafka-clients-3.9.2.jar"]
    assert [path.name for path in found] == names
    assert lines == ["fetching Spark's Kafka connector 4.2.0, the newest one for PySpark 4.3.0 ..."]
    assert found[0].read_bytes() == f"content of {SPARK}:{CONNECTOR}:4.2.0".encode()
    assert all(path.is_relative_to(tmp_path / "cache" / "sparkbleach" / "jars") for path in found)
    repository.asked.clear()
    assert jars.connector_jars(lines.append) == found
    assert jars.spark_jars() == ",".join(path.as_uri() for path in found)
    assert (repository.asked, len(lines)) == ([], 1)


def test_a_jar_that_is_not_the_listed_one_is_refused(repository: Repository, tmp_path: Path) -> None:
    """What a repository sends is not kept if it is another jar, whatever checksum is beside it there."""
    path = f"/maven/org/apache/spark/{CONNECTOR}/4.2.0/{CONNECTOR}-4.2.0.jar"
    repository.files[path] += b"!"
    repository.files[f"{path}.sha1"] = hashlib.sha1(repository.files[path]).hexdigest().encode()  # noqa: S324
    with pytest.raises(DownloadError, match="has the checksum"):
        jars.connector_jars()
    assert not list((tmp_path / "cache").rglob(f"{CONNECTOR}*.jar"))


def test_a_jar_that_was_changed_in_the_cache_is_fetched_again(repository: Repository) -> None:
    """Each use compares the jars of the cache with their checksums; one that differs is replaced, alone."""
    connector, *_, clients = jars.connector_jars()
    right = clients.read_bytes()
    clients.write_bytes(b"another jar")
    repository.asked.clear()
    lines: list[str] = []
    assert jars.connector_jars(lines.append)[-1] == clients
    assert clients.read_bytes() == right
    assert (len(repository.asked), len(lines)) == (1, 1)
    connector.write_bytes(b"another jar")
    repository.files.clear()
    with pytest.raises(DownloadError, match="404"):
        jars.connector_jars()


def test_a_cache_that_cannot_be_used_is_named(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A jar that cannot be read, and one that cannot be kept, is named; no part of it stays."""
    connector, *_ = jars.connector_jars()
    connector.unlink()
    connector.mkdir()
    with pytest.raises(DownloadError, match=rf"{connector}: this jar cannot be read \(Is a dir.*remove what"):
        jars.connector_jars()
    connector.rmdir()
    data = b"x" * 100_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(DownloadError, match=rf"{connector}: .* be kept \(File too large\); make"):
            jars._save(connector, data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(connector.parent.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DownloadError, match=r"jar cannot be read \(Not a directory\); .* XDG_CACHE_HOME"):
        jars.connector_jars()
    with pytest.raises(DownloadError, match=r"jar cannot be kept \(Not a directory\); .* XDG_CACHE_HOME"):
        jars._save(jars.cache() / "a.jar", data)


def test_jars_come_by_https_only(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository without https is refused before it is asked, and one that leads to such a place, too."""
    plain = f"http://127.0.0.1:{repository.plain.server_port}"
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", f"{plain}/maven")
    with pytest.raises(DownloadError, match=r"by https only; give .* begins with https://"):
        jars.connector_jars()
    assert repository.asked == []
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", "file:///tmp")
    with pytest.raises(DownloadError, match="by https only"):
        jars.connector_jars()
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", repository.url)
    repository.leads_to = plain
    with pytest.raises(DownloadError, match=rf"{plain}/maven/.*\.jar: jars are fetched by https only"):
        jars.connector_jars()


def test_a_failed_download_is_reported(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing jar, a repository that is not there, no fitting version: each is lines with a remedy."""
    del repository.files["/maven/org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar"]
    with pytest.raises(DownloadError, match=r"kafka-clients-3\.9\.2\.jar: cannot be fetched .*404"):
        jars.connector_jars()
    with pytest.raises(DownloadError, match="check the network"):
        jars.broker_jars()
    monkeypatch.setattr(jars, "version", lambda _: "2.4.0")
    with pytest.raises(DownloadError, match=r"none for PySpark 2\.4\.0 among 3\.5\.9, .*; give Spark"):
        jars.connector_jars()
    monkeypatch.setattr(jars, "version", lambda _: "4.3.0")
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", "https://127.0.0.1:1")
    with pytest.raises(DownloadError, match="give another repository"):
        jars.connector_jars()


def test_each_supported_pyspark_has_a_connector_with_all_its_jars() -> None:
    """The list has a block for each release of the connector, in which the connector comes first."""
    blocks = jars._read_blocks(jars._CONNECTOR)
    assert {block[0].version[:3] for block in blocks} == {"4.1", "4.2"}
    for block in blocks:
        assert [artifact.name for artifact in block] == [CONNECTOR, TOKENS, "kafka-clients", "commons-pool2"]
        assert all(len(artifact.sha256) == 64 for artifact in block)


def test_the_mirror_of_maven_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SPARKBLEACH_MAVEN_URL the mirror of central in Maven's settings counts, else Maven Central."""
    monkeypatch.delenv("SPARKBLEACH_MAVEN_URL", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert jars.repository() == "https://repo1.maven.org/maven2"
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    mirror = "<mirror><mirrorOf>{}</mirrorOf><url>{}</url></mirror>"
    mirrors = mirror.format("*,!central", "https://a") + mirror.format("central", "https://b/maven/")
    space = 'xmlns="http://maven.apache.org/SETTINGS/1.0.0"'
    settings.write_text(f"<settings {space}><mirrors>{mirrors}</mirrors></settings>")
    assert jars.repository() == "https://b/maven"
    settings.write_text("<settings")
    assert jars.repository() == "https://repo1.maven.org/maven2"
    monkeypatch.setenv("SPARKBLEACH_MAVEN_URL", "https://c/")
    assert jars.repository() == "https://c"


def test_the_connector_of_this_environment(connector: str | None) -> None:
    """The connector that the tests run with is of the major version of PySpark."""
    if connector is None:
        pytest.skip("Kafka: its jars are not in the cache, and Maven Central cannot be reached")
    assert f"{CONNECTOR}-{version('pyspark').partition('.')[0]}." in connector
