"""A topic and its address: `kafka://host:port/topic`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import ConfigError

SCHEME = "kafka://"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"[^\s/:,@]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
#: options with this prefix are for the Python client only, those of _JAVA_ONLY for Spark only
_PYTHON_ONLY = "librdkafka."
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.", "ssl.key.", "sasl.login.")
#: a key and a value of a Java property, separated by =, : or a blank
_PROPERTY = re.compile(r"((?:\\.|[^=:\s\\])+)(?:\s*[=:]\s*|\s+)(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"[A-Za-z0-9._-]+")
_SECRET = re.compile(r"password|passphrase|secret|token|jaas|credential|\.key$|key\.pem$", re.IGNORECASE)
_QUOTED_SECRET = re.compile(
    r"""(?:password|passphrase|secret)\s*=\s*(?:"((?:\\.|[^"\\])+)"|'((?:\\.|[^'\\])+)'|([^"';\s]+))""",
    re.IGNORECASE | re.DOTALL,
)
#: an argument such as sasl.password=hunter2, perhaps behind --kafka-option=
_ASSIGNMENT = re.compile(r"(?:-[\w-]*=)?([\w.-]+)(?:=|:(?=\S))(.+)", re.DOTALL)


@dataclass(frozen=True)
class Topic:
    """A topic of a Kafka cluster.

    Attributes:
        servers: The brokers to ask first: `host:port`, several separated by commas.
        name: The name of the topic.
        options: Options that Kafka's clients need to connect, such as `security.protocol`.
        timeout_s: How many seconds the Python client waits for an answer of the cluster.
    """

    servers: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    timeout_s: float = 60.0

    @classmethod
    def parse(cls, url: str | Topic, options: Mapping[str, str] | None = None) -> Topic:
        """Return the topic that an address names; a topic is returned as it is.

        Raises:
            ConfigError: If it is not the address of a topic.
        """
        if isinstance(url, Topic):
            return url
        servers, _, name = url.removeprefix(SCHEME).partition("/")
        valid = url.startswith(SCHEME) and all(_SERVER.fullmatch(server) for server in servers.split(","))
        if not valid or not _NAME.fullmatch(name):
            raise ConfigError(f"{url}: this is not the address of a topic; write kafka://host:port/topic")
        return cls(servers, name, dict(options or {}))

    def __str__(self) -> str:
        return f"{SCHEME}{self.servers}/{self.name}"

    def beside(self, what: str) -> Topic:
        """Return the topic NAME-WHAT of the same cluster."""
        return replace(self, name=f"{self.name}-{what}")

    def spark_options(self) -> dict[str, str]:
        """Return the options that Spark's source and sink need to connect."""
        given = {
            f"kafka.{key}": value for key, value in self.options.items() if not key.startswith(_PYTHON_ONLY)
        }
        return {"kafka.bootstrap.servers": self.servers, **given}

    def client_options(self) -> dict[str, str]:
        """Return the options that the Python client needs to connect."""
        given = {
            key.removeprefix(_PYTHON_ONLY): value
            for key, value in self.options.items()
            if not key.startswith(_JAVA_ONLY)
        }
        return {"bootstrap.servers": self.servers, **given}


def is_topic(target: str) -> bool:
    """Return whether a target is a topic, and not a path."""
    return target.startswith(SCHEME)


def read_options(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the options in a file of Java properties, as Kafka's own programs take them.

    Raises:
        ConfigError: If the file cannot be read, or a line of it has no value.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not valid UTF-8"
        raise ConfigError(
            f"kafka config: cannot read {path} ({why}); check the path and its permissions"
        ) from error
    options = {}
    for number, line in _logical_lines(text):
        found = _PROPERTY.fullmatch(line)
        if found is None or not found[2]:
            raise ConfigError(f"kafka config: {path}:{number} has no value (not shown); write key=value")
        key, value = (_ESCAPE.sub(_unescaped, part) for part in found.groups())
        if not _KEY.fullmatch(key):
            raise ConfigError(f"kafka config: {path}:{number} has an odd key (not shown); write key=value")
        options[key.removeprefix("kafka.")] = value
    return options


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, without comments; one that ends with a backslash goes on below."""
    begun, number = "", 0
    for at, line in enumerate(text.splitlines(), start=1):
        line = line.lstrip(" \t\f")
        if not begun:
            if not line or line[0] in "#!":
                continue
            number = at
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield number, begun
        begun = ""
    if begun:
        yield number, begun


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return (
        chr(int(code[1:], 16))
        if len(code) > 1
        else {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(code, code)
    )


def secrets_in(options: Mapping[str, str]) -> list[str]:
    """Return the values of options that must not be shown, and the secrets within them."""
    found = [value for key, value in options.items() if _SECRET.search(key)]
    within = [text for value in found for texts in _QUOTED_SECRET.findall(value) for text in texts if text]
    return found + within


def secrets_among(arguments: Iterable[str]) -> list[str]:
    """Return the secrets in arguments of a command, wherever they stand."""
    matches = [match for argument in arguments if (match := _ASSIGNMENT.fullmatch(argument))]
    return [secret for match in matches for secret in secrets_in({match[1]: match[2]})]


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """Return options that are written as `key=value`."""
    options = {}
    for number, text in enumerate(texts, start=1):
        key, equals, value = text.partition("=")
        if not equals or not _KEY.fullmatch(key.strip()):
            raise ConfigError(
                f"kafka option: number {number} (not shown, it may be a secret) is not key=value; "
                "write key=value, such as security.protocol=SSL"
            )
        options[key.strip().removeprefix("kafka.")] = value
    return options
