"""HDFS as a child process: what it is run from.  Starting it is tested where it is used: the ledger on HDFS."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import pytest

from localkafka import hdfs, java, releases
from localkafka.errors import LocalKafkaError

NAMESPACE = "{http://maven.apache.org/POM/4.0.0}"


def test_its_pom_asks_for_exactly_its_version() -> None:
    asked = {
        str(dependency.findtext(f"{NAMESPACE}artifactId")): str(dependency.findtext(f"{NAMESPACE}version"))
        for dependency in xml.fromstring(releases.pom(hdfs.JARS)).iter(f"{NAMESPACE}dependency")
    }
    assert asked == {"hadoop-client-minicluster": "3.4.2", "hadoop-client-runtime": "3.4.2", "junit": "4.13.2"}


def test_an_old_java_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "executable", lambda: "/old/java")
    monkeypatch.setattr(java, "feature_version", lambda _: 8)
    running = hdfs.Hdfs()
    try:
        with pytest.raises(LocalKafkaError, match="/old/java is older than Java 11"):
            running.start()
        with pytest.raises(LocalKafkaError, match="was not started"):
            _ = running.pid
    finally:
        running.close()
    assert not running._work.path.exists()
