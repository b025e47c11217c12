"""Addresses of topics and options of clients are read as written, or refused with a remedy."""

from __future__ import annotations

import pytest

from sparkbleach import ConfigError, open_log
from sparkbleach.kafka import Topic, TopicLog
from sparkbleach.kafka.topic import is_topic, parse_options


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
    with pytest.raises(ConfigError, match="number 2") as refused:
        parse_options(["a=b", "sasl.password:hunter2"])
    assert "hunter2" not in str(refused.value)


def test_a_rule_log_may_be_a_topic() -> None:
    """open_log takes the address of a topic, and asks nobody before it is used."""
    log = open_log("kafka://h:1/rules", {"a": "b"})
    assert isinstance(log, TopicLog)
    assert (log.target, str(log.outcomes_topic)) == ("kafka://h:1/rules", "kafka://h:1/rules-outcomes")
    assert log.topic.options == {"a": "b"}
