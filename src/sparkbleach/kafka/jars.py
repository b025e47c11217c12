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
_CONNECTOR = Path(__file__).with_name("connector-jars.txt")
_BROKER = Path(__file__).with_name("broker-jars.txt")
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 60
_DOWNLOADS_AT_ONCE = 8


@dataclass(frozen=True)
class Artifact:
    """A jar of a Maven repository, and what it must be."""

    sha256: str
    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, line: str) -> Artifact:
        """Return what a checksum and `group:name:version` say."""
        sha256, coordinates = line.split()
        return cls(sha256, *coordinates.split(":"))

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def path(self) -> str:
        """The path of the file in a repository."""
        directory = self.group.replace(".", "/")
        return f"{directory}/{self.name}/{self.version}/{self.name}-{self.version}.jar"


def repository() -> str:
    """Return the address of the Maven repository.

    SPARKBLEACH_MAVEN_URL has precedence over the mirror of `central` in ~/.m2/settings.xml, and that over
    Maven Central.

    Raises:
        DownloadError: If the address does not begin with https.
    """
    given = os.environ.get("SPARKBLEACH_MAVEN_URL")
    url = (given or _mirror(Path.home() / ".m2" / "settings.xml") or _CENTRAL).rstrip("/")
    _check_https(url)
    return url


def cache() -> Path:
    """Return the directory that jars are kept in: `sparkbleach/jars` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sparkbleach" / "jars"


def connector_jars(notify: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Return the jars that make Spark read and write Kafka, fetched if they are not in the cache.

    The connector has the version of PySpark, or, where that is not known, the newest older one of the same
    major version; `notify` gets a line that says which, when it is fetched.
    """
    wanted = version("pyspark")
    limit = _numbers(wanted)
    known = {block[0].version: block for block in _read_blocks(_CONNECTOR)}
    fitting = [one for one in known if _numbers(one) <= limit and _numbers(one)[0] == limit[0]]
    if not fitting:
        raise DownloadError(
            f"Spark's Kafka connector: there is none for PySpark {wanted} among {', '.join(known)}; "
            "give Spark the connector by spark.jars or spark.jars.packages"
        )
    found = max(fitting, key=_numbers)
    other = "" if found == wanted else f", the newest one for PySpark {wanted}"
    return _fetch_all(known[found], lambda: notify(f"fetching Spark's Kafka connector {found}{other} ..."))


def spark_jars(notify: Callable[[str], None] = lambda _: None) -> str:
    """Return the connector's jars as a value of the setting `spark.jars`.

    Raises:
        DownloadError: If the jars are not in the cache and cannot be fetched or kept.
    """
    return ",".join(jar.as_uri() for jar in connector_jars(notify))


def broker_jars(notify: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Return the jars of a Kafka broker, fetched, with a line for `notify`, if they are not in the cache."""
    [artifacts] = _read_blocks(_BROKER)
    return _fetch_all(artifacts, lambda: notify("fetching a Kafka broker, 44 MB ..."))


def _read_blocks(path: Path) -> list[list[Artifact]]:
    """Return the jars of a list, in which blank lines are between blocks."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    blocks = "\n".join(lines).strip().split("\n\n")
    return [[Artifact.parse(line) for line in block.splitlines()] for block in blocks]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _fetch_all(artifacts: Sequence[Artifact], announce: Callable[[], None]) -> list[Path]:
    """Return jars of the cache; those that are missing there, or are not what they must be, are fetched."""
    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE, "sparkbleach-jars") as pool:
        missing = [
            one for one, kept in zip(artifacts, pool.map(_is_kept, artifacts), strict=True) if not kept
        ]
        if missing:
            announce()
            list(pool.map(_fetch, missing))
    return [cache() / artifact.path for artifact in artifacts]


def _is_kept(artifact: Artifact) -> bool:
    """Return whether the cache has a jar as it must be."""
    path = cache() / artifact.path
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DownloadError(
            f"{path}: this jar cannot be read ({error.strerror}); remove what is there, correct its "
            "permissions, or give another cache by XDG_CACHE_HOME"
        ) from error


def _fetch(artifact: Artifact) -> None:
    """Fetch a jar into the cache, if it is what it must be."""
    data = _download(artifact.path)
    found = hashlib.sha256(data).hexdigest()
    if found != artifact.sha256:
        raise DownloadError(
            f"{artifact}: what {repository()} sent has the checksum {found}, not {artifact.sha256}; "
            "try again, or give another repository by SPARKBLEACH_MAVEN_URL"
        )
    _save(cache() / artifact.path, data)


def _save(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            hidden = Path(file.name)
            try:
                file.write(data)
                file.flush()
                hidden.replace(path)
            except BaseException:
                hidden.unlink()
                raise
    except OSError as error:
        raise DownloadError(
            f"{path}: this jar cannot be kept ({error.strerror}); make room and check the permissions there, "
            "or give another cache by XDG_CACHE_HOME"
        ) from error


def _download(path: str) -> bytes:
    """Return a file of the repository."""
    url = f"{repository()}/{path}"
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 -- it is https
                data, came_from = bytes(answer.read()), str(answer.url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if attempt == _ATTEMPTS or refused or isinstance(error, ValueError):
                raise DownloadError(
                    f"{url}: cannot be fetched ({error}); check the network, or give another repository "
                    "by SPARKBLEACH_MAVEN_URL"
                ) from error
            time.sleep(attempt)
        else:
            _check_https(came_from)
            return data
    raise AssertionError


def _check_https(url: str) -> None:
    if not url.startswith("https://"):
        raise DownloadError(
            f"{url}: jars are fetched by https only; "
            "give a repository by SPARKBLEACH_MAVEN_URL whose address begins with https://"
        )


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
