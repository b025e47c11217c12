"""Addresses of topics and options of clients are read as written, or refused with a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkbleach import ConfigError, KafkaError, open_log
from sparkbleach.cli.app import app
from sparkbleach.cli.topics import await_input
from sparkbleach.kafka import Topic, TopicLog
from sparkbleach.kafka.topic import is_topic, parse_options, read_options, secrets_in


def test_an_address_names_servers_and_a_topic() -> None:
    """`kafka://host:port/topic` is a topic, also with several servers, and prints as it was written."""
    topic = Topic.parse("kafka://a.example:9092,[::1]:9093/shop.sales_1", {"security.protocol": "SSL"})
    assert (topic.servers, topic.name) == ("a.example:9092,[::1]:9093", "shop.sales_1")
    assert str(topic) == "kafka://a.example:9092,[::1]:9093/shop.sales_1"
    assert str(topic.beside("audit")) == f"{topic}-audit"
    assert topic.beside("audit").options == topic.options
    assert Topic.parse(topic) is topic
    assert is_topic(str(topic))
    assert not is_topic("/data/kafka")


@pytest.mark.parametrize(
    "address",
    [
        "kafka://host/topic",
        "kafka://host:1",
        "kafka://host:1/",
        "kafka://host:1/a/b",
        "kafka:///t",
        "host:1/t",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """Anything else is refused, with the form to write."""
    with pytest.raises(ConfigError, match=r"write kafka://host:port/topic"):
        Topic.parse(address)


def test_options_go_to_the_client_that_knows_them() -> None:
    """Options go to Spark and to Python, but for those that only one of them has."""
    given = ["security.protocol=SASL_SSL", "sasl.jaas.config=a=b", "librdkafka.sasl.username=me", "kafka.x=1"]
    topic = Topic.parse("kafka://h:1/t", parse_options(given))
    assert topic.spark_options() == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "a=b",
        "kafka.x": "1",
    }
    assert topic.client_options() == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.username": "me",
        "x": "1",
    }
    with pytest.raises(ConfigError, match="write key=value"):
        parse_options(["security.protocol"])
    for text in ("sasl.password:hunter2", "sasl.password:hunter2==", "sasl password=hunter2"):
        with pytest.raises(ConfigError, match="number 2") as refused:
            parse_options(["a=b", text])
        assert "hunter2" not in str(refused.value)


def test_a_rule_log_may_be_a_topic() -> None:
    """open_log takes the address of a topic, and asks nobody before it is used."""
    log = open_log("kafka://h:1/rules", {"a": "b"})
    assert isinstance(log, TopicLog)
    assert (log.target, str(log.outcomes_topic)) == ("kafka://h:1/rules", "kafka://h:1/rules-outcomes")
    assert log.topic.options == {"a": "b"}


PROPERTIES = r"""
# how to connect
security.protocol=SASL_SSL
! Java's other comment
  kafka.sasl.mechanism : PLAIN
sasl.jaas.config=org.example.Login required \
    username="ann" \
    password="hunter2";
ssl.truststore.location C:\\certs\u0020x
empty.tail=a=b #c
"""


def test_options_from_a_file(tmp_path: Path) -> None:
    """A file is read as Java reads properties: comments, separators, escapes, lines that go on."""
    (tmp_path / "client.properties").write_text(PROPERTIES)
    options = read_options(tmp_path / "client.properties")
    assert options == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'org.example.Login required username="ann" password="hunter2";',
        "ssl.truststore.location": "C:\\certs x",
        "empty.tail": "a=b #c",
    }
    assert secrets_in(options) == [options["sasl.jaas.config"], "hunter2"]
    assert "hunter2" not in repr(Topic.parse("kafka://h:1/t", options))
    with pytest.raises(ConfigError, match=r"nowhere \(No such file or directory\); check the path"):
        read_options(tmp_path / "nowhere")
    (tmp_path / "bad").write_text("a=b\nsasl.password/hunter2 x\n")
    with pytest.raises(ConfigError, match=r"bad:2 has an odd key \(not shown\); write key=value"):
        read_options(tmp_path / "bad")
    (tmp_path / "bad").write_text("a=b\nsasl.password\n")
    with pytest.raises(ConfigError, match=r"bad:2 has no value \(not shown\); write key=value"):
        read_options(tmp_path / "bad")


@pytest.mark.parametrize(
    ("key", "value", "within"),
    [
        ("ssl.key.passphrase", "x y", []),
        ("a.jaas", "l password=\"hun ter;2\" secret='it\\'s';", ["hun ter;2", "it\\'s"]),
        ("a.jaas", "l password=hunter2;", ["hunter2"]),
    ],
)
def test_what_is_secret(key: str, value: str, within: list[str]) -> None:
    """A secret is the value of a key that says so, and what is in quotes within it, blanks included."""
    assert secrets_in({key: value, "security.protocol": "SSL"}) == [value, *within]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--kafka-option", "security.protocol=PLAINTEXT", "sasl.password=hunter2"),
        ("--kafka-option", "a=b", "sasl.password:hunter2=="),
        ("--kafka-config", "sasl.password=hunter2"),
        ("--kafka-config=sasl.password=hunter2",),
        ("--kafka-option", "sasl.password:hunter2=="),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(arguments: tuple[str, ...]) -> None:
    """What Typer says about arguments shows no secret, and neither does the path of a file that is none."""
    result = CliRunner().invoke(app, ["rules", "list", "--target", "kafka://127.0.0.1:1/t", *arguments])
    assert result.exit_code == 2
    assert "hunter2" not in result.output
    assert "***" in result.output or "not shown" in result.output


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize("command", [("rules", "list", "--target"), ("explain", "1", "--audit")])
def test_secrets_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], debug: tuple[str, ...]
) -> None:
    """An option of the command line wins over the file, and no message shows a secret of either."""
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\nsasl.password=hunter2\n")
    path.chmod(0o644)
    monkeypatch.setenv("SPARKBLEACH_KAFKA_CONFIG", str(path))
    option = ("--kafka-option", "security.protocol=is not hunter2")  # which the client refuses, and quotes
    result = CliRunner().invoke(app, [*command, "kafka://127.0.0.1:1/t", *option, *debug])
    assert result.exit_code == 1
    assert "hunter2" not in result.output
    assert "is not ***" in result.output
    assert f"{path} has secrets, and all users can read it; chmod 600 {path}" in result.output
    assert ("Traceback" in result.output) == bool(debug)
    path.chmod(0o600)
    assert "has secrets" not in CliRunner().invoke(app, [*command, "kafka://127.0.0.1:1/t", *option]).output


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize(
    "target",
    [
        "kafka://ann:pass-word@127.0.0.1:1/t",
        "s3://ann:pass-word@bucket/rules",
        "kafka://ann:pa/ss-word@127.0.0.1:1/t",
        "kafka://ann:p@ss-word@127.0.0.1:1/t",
        "kafka://pa@ss-word@127.0.0.1:1/t",
    ],
)
def test_a_password_in_an_address_is_not_shown(target: str, debug: tuple[str, ...]) -> None:
    """An address that is refused is shown without what is before the host."""
    result = CliRunner().invoke(app, ["rules", "list", "--target", target, *debug])
    assert result.exit_code == 2
    assert "ss-word" not in result.output
    assert re.search(r"://\*\*\*@(127|bucket)", result.output)


def test_a_cluster_that_is_away_at_the_start_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """The command says that it waits, and for how long, before it gives up."""
    with pytest.raises(KafkaError, match=r"kafka://127.0.0.1:1/t: .*check the address"):
        await_input(Topic("127.0.0.1:1", "t", timeout_s=6))
    assert capsys.readouterr().err == "Kafka at 127.0.0.1:1 has not answered for 5 s; waiting 1 s more\n"
