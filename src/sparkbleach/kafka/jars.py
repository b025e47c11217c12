"""Jars from Maven Central, kept in a cache: Spark's Kafka connector, and a broker for tests and demos."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tempfile
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ..errors import DownloadError

_CENTRAL = "https://repo1.maven.org/maven2"
_CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13")
#: the jars that the connector needs and Spark does not have; the names are those in its POM
_NEEDED = ("spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
_BROKER = Path(__file__).with_name("broker-jars.txt")
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 60
_DOWNLOADS_AT_ONCE = 8


@dataclass(frozen=True)
class Artifact:
    """A jar of a Maven repository."""

    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Artifact:
        """Return what `group:name:version` names."""
        return cls(*text.split(":"))

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    def path(self, ending: str = "jar") -> str:
        """Return the path of the file in a repository."""
        directory = self.group.replace(".", "/")
        return f"{directory}/{self.name}/{self.version}/{self.name}-{self.version}.{ending}"


def repository() -> str:
    """Return the address of the Maven repository.

    SPARKBLEACH_MAVEN_URL has precedence over the mirror of `central` in ~/.m2/settings.xml, and that over
    Maven Central.
    """
    given = os.environ.get("SPARKBLEACH_MAVEN_URL")
    return (given or _mirror(Path.home() / ".m2" / "settings.xml") or _CENTRAL).rstrip("/")


def cache() -> Path:
    """Return the directory that jars are kept in: `sparkbleach/jars` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sparkbleach" / "jars"


def connector_jars(notify: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Return the jars that make Spark read and write Kafka, fetched if they are not in the cache.

    The connector has the version of PySpark, or, where that is not published, the newest older one of the
    same major version; `notify` gets a line that says which, when it is fetched.
    """
    wanted = version("pyspark")
    note = cache() / f"connector-for-{wanted}.txt"
    if note.exists():
        artifacts = [Artifact.parse(line) for line in note.read_text().split()]
    else:
        found = _newest(*_CONNECTOR, wanted)
        other = "" if found == wanted else f", the newest one for PySpark {wanted}"
        notify(f"fetching Spark's Kafka connector {found}{other} ...")
        artifacts = _with_needed(Artifact(*_CONNECTOR, found))
    jars = _fetch_all([(artifact, None) for artifact in artifacts])
    _save(note, "".join(f"{artifact}\n" for artifact in artifacts).encode())
    return jars


def spark_jars(notify: Callable[[str], None] = lambda _: None) -> str:
    """Return the connector's jars as a value of the setting `spark.jars`.

    Raises:
        DownloadError: If the jars are not in the cache and cannot be fetched.
    """
    return ",".join(jar.as_uri() for jar in connector_jars(notify))


def broker_jars(notify: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Return the jars of a Kafka broker, fetched, with a line for `notify`, if they are not in the cache."""
    lines = [line.split() for line in _BROKER.read_text().splitlines() if not line.startswith("#")]
    artifacts = [(Artifact.parse(coordinates), checksum) for checksum, coordinates in lines]
    if not all((cache() / artifact.path()).exists() for artifact, _ in artifacts):
        notify("fetching a Kafka broker, 44 MB ...")
    return _fetch_all(artifacts)


def _newest(group: str, name: str, wanted: str) -> str:
    """Return the version of an artifact that a repository has: the wanted one, or the newest older one."""
    listing = ET.fromstring(_download(f"{group.replace('.', '/')}/{name}/maven-metadata.xml"))  # noqa: S314 -- a repository that code comes from is trusted
    limit = _numbers(wanted)
    fitting = [
        found.text
        for found in listing.iter("version")
        if found.text
        and re.fullmatch(r"\d+\.\d+\.\d+", found.text)
        and _numbers(found.text) <= limit
        and _numbers(found.text)[0] == limit[0]
    ]
    if not fitting:
        raise DownloadError(
            f"{repository()}: there is no {group}:{name} of version {wanted} or of an older {limit[0]}.x; "
            "give Spark the connector by spark.jars or spark.jars.packages"
        )
    return max(fitting, key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _with_needed(connector: Artifact) -> list[Artifact]:
    """Return the connector, and the jars that it needs and Spark does not have."""
    pom = ET.fromstring(_download(connector.path("pom")))  # noqa: S314 -- as above
    space = {"m": pom.tag.partition("}")[0].lstrip("{")}
    found = {}
    for dependency in pom.iterfind("m:dependencies/m:dependency", space):
        group, name, its_version, scope = (
            dependency.findtext(f"m:{tag}", "", space)
            for tag in ("groupId", "artifactId", "version", "scope")
        )
        if name in _NEEDED and scope in ("", "compile", "runtime"):
            if group == connector.group:  # not every repository has every version of Spark's own parts
                its_version = _newest(group, name, its_version)
            found[name] = Artifact(group, name, its_version)
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise DownloadError(
            f"{connector}: its POM does not name {', '.join(missing)}; "
            "give Spark the connector by spark.jars or spark.jars.packages"
        )
    return [connector, *(found[name] for name in _NEEDED)]


def _fetch_all(artifacts: Sequence[tuple[Artifact, str | None]]) -> list[Path]:
    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE, "sparkbleach-jars") as pool:
        return list(pool.map(lambda one: _fetch(*one), artifacts))


def _fetch(artifact: Artifact, sha256: str | None) -> Path:
    """Return a jar of the cache; if it is missing, fetch it and compare it with its checksum."""
    path = cache() / artifact.path()
    if path.exists():
        return path
    data = _download(artifact.path())
    if sha256 is None:
        expected = _download(artifact.path("jar.sha1")).decode().split()[0]
        found = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    else:
        expected, found = sha256, hashlib.sha256(data).hexdigest()
    if found != expected:
        raise DownloadError(
            f"{artifact}: what {repository()} sent has the checksum {found}, not {expected}; "
            "try again, or give another repository by SPARKBLEACH_MAVEN_URL"
        )
    _save(path, data)
    return path


def _save(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def _download(path: str) -> bytes:
    """Return a file of the repository."""
    url = f"{repository()}/{path}"
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 -- the user's choice
                return bytes(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if attempt == _ATTEMPTS or refused or isinstance(error, ValueError):
                raise DownloadError(
                    f"{url}: cannot be fetched ({error}); check the network, or give another repository "
                    "by SPARKBLEACH_MAVEN_URL"
                ) from error
            time.sleep(attempt)
    raise AssertionError


def _mirror(settings: Path) -> str | None:
    """Return the address of the mirror of Maven Central that Maven's settings name."""
    try:
        root = ET.parse(settings).getroot()  # noqa: S314 -- the user's own file
    except (OSError, ET.ParseError):
        return None
    for mirror in root.iterfind(".//{*}mirrors/{*}mirror"):
        names = [name.strip() for name in mirror.findtext("{*}mirrorOf", "").split(",")]
        if "!central" not in names and {"central", "*", "external:*"} & set(names):
            return mirror.findtext("{*}url", "").strip() or None
    return None
