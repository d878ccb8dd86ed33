"""The versions' tables and poms."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import pytest

from localkafka import releases
from localkafka.errors import LocalKafkaError

NAMESPACE = "{http://maven.apache.org/POM/4.0.0}"


@pytest.mark.parametrize("version", releases.KNOWN)
def test_every_known_version_has_a_pom_that_asks_for_exactly_it(version: str) -> None:
    asked = {
        (dependency.findtext(f"{NAMESPACE}artifactId"), dependency.findtext(f"{NAMESPACE}version"))
        for dependency in xml.fromstring(releases.pom(version)).iter(f"{NAMESPACE}dependency")
    }
    assert any(name is not None and name.startswith("kafka_2.") and of == version for name, of in asked)
    assert not any(of is None or "[" in of or "LATEST" in of for _, of in asked), "a version range changes by itself"


def test_an_unknown_version_names_the_known_ones() -> None:
    with pytest.raises(LocalKafkaError, match=r"unknown Kafka version '0\.7\.2'; known are .*0\.8\.2\.2.*4\.3\.1"):
        releases.release("0.7.2")


def test_settings_come_with_the_release_that_knows_them() -> None:
    old = releases.applying(releases.SETTINGS, releases.release("0.8.1.1"))
    new = releases.applying(releases.SETTINGS, releases.release("2.8.2"))
    assert "num.partitions" in old
    assert "offsets.topic.num.partitions" not in old
    assert "log.retention.ms" not in old
    assert {"offsets.topic.num.partitions", "log.cleaner.dedupe.buffer.size", "log.retention.ms"} <= set(new)


def test_listeners_are_told_in_the_releases_own_words() -> None:
    old = releases.listener(releases.release("0.8.2.2"), "127.0.0.1", 9092, ("127.0.0.1", 9999))
    assert (old["port"], old["advertised.port"]) == ("9092", "9999")
    new = releases.listener(releases.release("0.9.0.1"), "127.0.0.1", 9092, ("127.0.0.1", 9999))
    assert new["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9999"
