"""A topic and its address: `kafka://host:port/topic`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import ConfigError

SCHEME = "kafka://"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"[^\s/:,]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
#: options with this prefix are for the Python client only, those of _JAVA_ONLY for Spark only
_PYTHON_ONLY = "librdkafka."
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.", "ssl.key.", "sasl.login.")


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
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
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


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """Return options that are written as `key=value`."""
    options = {}
    for number, text in enumerate(texts, start=1):
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"kafka option: number {number} (not shown, it may be a secret) is not key=value; "
                "write key=value, such as security.protocol=SSL"
            )
        options[key.strip().removeprefix("kafka.")] = value
    return options
