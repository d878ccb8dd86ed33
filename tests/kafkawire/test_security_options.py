"""Options of the connections to brokers: what they say, what they refuse, what is never printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groundwork.options import OptionError, load, warnings_of
from kafkawire.dialects import dialect
from kafkawire.errors import NoListener
from kafkawire.model import Broker
from kafkawire.net.security import OPEN
from kafkawire.znodes import v08
from producer.config import ProducerConfig
from zkconsumer.options.config import ConsumerConfig, load_consumer

GROUP = {"group.id": "g", "zookeeper.connect": "z:1", "auto.offset.reset": "smallest"}
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "hid den"}


def a_token(config: str) -> tuple[str, float]:
    return "", 0.0


def consumer(**options: Any) -> ConsumerConfig:
    return load_consumer(ConsumerConfig, {**GROUP, **{k.replace("_", "."): v for k, v in options.items()}}, "c.yaml")


def refusal(options: dict[str, Any]) -> str:
    with pytest.raises(OptionError) as said:
        load_consumer(ConsumerConfig, {**GROUP, **options}, "c.yaml")
    assert "hid den" not in str(said.value)
    return str(said.value)


def test_without_options_connections_are_plain() -> None:
    assert consumer().kafka_security == OPEN
    assert consumer(security_protocol="plaintext").kafka_security == OPEN


def test_a_login_is_what_the_options_say_and_the_password_is_never_printed(tmp_path: Path) -> None:
    word = tmp_path / "word"
    word.write_text("hid den\n")
    for password in ("hid den", f"file:{word}"):
        config = load_consumer(
            ConsumerConfig, {**GROUP, "security.protocol": "SASL_PLAINTEXT", **PLAIN, "sasl.password": password}, "c"
        )
        sasl = config.kafka_security.sasl
        assert sasl is not None
        assert sasl.password is not None
        assert (sasl.mechanism, sasl.username, sasl.password.text) == ("PLAIN", "ann", "hid den")
        assert "hid den" not in f"{config!r} {config.kafka_security!r}"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"security.protocol": "TLS"}, "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "'security.protocol' SASL_SSL needs 'sasl.mechanism'"),
        (PLAIN, "'sasl' options are given, but 'security.protocol' is PLAINTEXT, which has no login"),
        ({"ssl.ca.location": "/ca.pem"}, "'security.protocol' is PLAINTEXT: nothing would be TLS"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/ca"}, "ssl.ca.location /no/ca cannot be read"),
        ({"security.protocol": "SSL", "ssl.key.location": "/k"}, "needs 'ssl.certificate.location'"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"},
            "'sasl.mechanism' SCRAM-SHA-256 needs 'sasl.username' and 'sasl.password'",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"},
            "expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs 'sasl.oauthbearer.callback'",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.callback": "no.such:function",
            },
            "sasl.oauthbearer.callback 'no.such:function': importing no.such failed",
        ),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "expected https, or none"),
        ({"ssl.truststore.location": "/t.jks"}, "here: ssl.ca.location, a file in PEM"),
        ({"sasl.jaas.config": "hid den"}, "here: sasl.username and sasl.password"),
        (
            {"security.protocol": "SSL", "kafka.version": "0.7.2"},
            "'security.protocol' SSL: brokers of Kafka 0.7.2 know neither TLS nor SASL",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(options)


def test_the_host_check_is_on_unless_it_is_switched_off() -> None:
    assert consumer(security_protocol="SSL").kafka_security.tls.host_check
    for off in ("", "none", "NONE"):
        options = {**GROUP, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": off}
        assert not load_consumer(ConsumerConfig, options, "c").kafka_security.tls.host_check


def test_a_producer_has_them_too() -> None:
    options = {"metadata.broker.list": "b:1", "security.protocol": "SASL_PLAINTEXT", **PLAIN}
    made = load(ProducerConfig, options, "p.yaml")
    assert made.kafka_security.protocol == "SASL_PLAINTEXT"
    assert not warnings_of(made)
    callback = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.callback": f"{__name__}:a_token"}
    options = {"metadata.broker.list": "b:1", "security.protocol": "SASL_PLAINTEXT", **callback}
    assert load(ProducerConfig, options, "p").kafka_security.connect() is not None
    with pytest.raises(OptionError, match=r"Kafka 0\.7\.2 supports neither TLS nor SASL"):
        load(ProducerConfig, {"zk.connect": "z:1", "security.protocol": "SSL", "kafka.version": "0.7.2"}, "p")


# ---- brokers' addresses in ZooKeeper ---------------------------------------------------------------------------------


def node(*endpoints: str, protocols: dict[str, str] | None = None, host: str | None = None, port: int = -1) -> bytes:
    listed: dict[str, Any] = {"version": 4, "host": host, "port": port, "endpoints": list(endpoints)}
    return json.dumps(listed | ({"listener_security_protocol_map": protocols} if protocols else {})).encode()


def test_the_address_is_that_of_the_listener_with_the_protocol() -> None:
    both = node("PLAINTEXT://p:1", "SSL://s:2", "SASL_SSL://[::1]:3", host="p", port=1)
    named = node(
        "INSIDE://i:1", "OUTSIDE://o:2", "OPEN://n:3",
        protocols={"INSIDE": "SASL_SSL", "OUTSIDE": "SSL", "OPEN": "PLAINTEXT"}, host="n", port=3,
    )  # fmt: skip
    assert v08.broker(7, both) == Broker(7, "p", 1)
    assert v08.broker(7, both, "SSL") == Broker(7, "s", 2)
    assert v08.broker(7, both, "SASL_SSL") == Broker(7, "::1", 3)
    assert v08.broker(7, named) == Broker(7, "n", 3)
    assert v08.broker(7, named, "SSL") == Broker(7, "o", 2)
    assert v08.broker(7, named, "SASL_SSL") == Broker(7, "i", 1)
    with pytest.raises(NoListener, match="broker 7 has no SASL_PLAINTEXT address") as missing:
        v08.broker(7, named, "SASL_PLAINTEXT")
    assert missing.value.endpoints == ("INSIDE://i:1", "OUTSIDE://o:2", "OPEN://n:3")
    old = json.dumps({"host": "h", "port": 9092, "version": 1}).encode()
    with pytest.raises(NoListener, match="no SSL address"):
        v08.broker(7, old, "SSL")
    assert v08.broker(7, node("PLAINTEXT://p:1", host=None)) == Broker(7, "p", 1)


def test_a_dialect_reads_the_addresses_of_its_listener() -> None:
    spoken = dialect("2.8").through("SSL")
    assert spoken.znodes.broker(7, node("PLAINTEXT://p:1", "SSL://s:2", host="p", port=1)) == Broker(7, "s", 2)
    assert spoken.znodes.owners("g", "t") == dialect("2.8").znodes.owners("g", "t")
    assert spoken == dialect("2.8").through("SSL")
    assert dialect("2.8").through("PLAINTEXT") is dialect("2.8")
    assert dialect("0.7.2").through("SSL") is dialect("0.7.2")
