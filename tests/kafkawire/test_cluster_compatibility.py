"""Why a broker will never serve us: brokers that a test plays, of every kind that closes the connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.cluster.release import why_never
from kafkawire.dialects import dialect
from kafkawire.model import Broker
from localkafka import ports
from localkafka.seven.node import node_of
from tests.fakes.answering import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    NO_GROUPS,
    PRODUCE,
    Answer,
    answering,
    newer,
    old,
)

OPTION = "target.version"
NINE = ((PRODUCE, 0, 11), (FETCH, 0, 17), (LIST_OFFSETS, 0, 9), (METADATA, 0, 12))
FOUR = ((PRODUCE, 0, 13), (FETCH, 4, 18), (LIST_OFFSETS, 1, 11), (METADATA, 0, 13))
TEN = ((PRODUCE, 0, 2), (FETCH, 0, 2), (LIST_OFFSETS, 0, 0), (METADATA, 0, 1))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these brokers do not answer at once they never answer."""
    monkeypatch.setattr("kafkawire.cluster.release.TIMEOUT_MS", 500)


def said(answer: Answer, release: str) -> str | None:
    with answering(answer) as [(host, port)]:
        found = why_never([Broker(4, host, port)], dialect(release), OPTION)
        return found and found.replace(f"127.0.0.1:{port}", "h:9092")


def eight(api: int, _: int) -> bytes | None:
    return old(api, b"")


def nine(api: int, _: int) -> bytes | None:
    return old(api, NO_GROUPS)


@pytest.mark.parametrize(
    ("answer", "release"),
    [(eight, "0.8.0"), (eight, "0.8.2"), (nine, "0.8.2"), (nine, "0.9"), (newer(*TEN), "0.10.0"),
     (newer(*TEN), "0.8.2"), (newer(*NINE), "0.8.2"), (newer(*NINE), "3.9"), (newer(*NINE), "2.8")],
)  # fmt: skip
def test_nothing_is_known_against_a_broker_that_takes_the_requests_of_the_release(answer: Answer, release: str) -> None:
    assert said(answer, release) is None


@pytest.mark.parametrize(
    ("answer", "release", "is_", "set_to"),
    [(eight, "0.9", "0.8", "0.8.2"), (eight, "3.9", "0.8", "0.8.2"), (nine, "0.10.0", "0.9", "0.9"),
     (newer(*TEN), "0.10.1", "0.10.0", "0.10.0"), (newer(*TEN), "3.9", "0.10.0", "0.10.0")],
)  # fmt: skip
def test_a_release_that_is_too_new_is_named_with_the_right_one(
    answer: Answer, release: str, is_: str, set_to: str
) -> None:
    shown = dialect(release).release
    assert said(answer, release) == f"broker 4 (h:9092) is Kafka {is_}, and {OPTION} is {shown}: set it to {set_to}"


@pytest.mark.parametrize("release", ["0.8.2", "0.10.2", "3.9"])
def test_kafka_4_takes_no_release_before_it(release: str) -> None:
    shown = dialect(release).release
    assert said(newer(*FOUR), release) == f"broker 4 (h:9092) is Kafka 4.2, and {OPTION} is {shown}: set it to 4.2"


def test_kafka_4_is_what_it_is() -> None:
    assert said(newer(*FOUR), "4.0") is None


def test_a_listener_that_answers_nothing_but_its_versions_asks_for_a_login() -> None:
    versions = newer(*NINE)
    sentence = said(lambda api, times: versions(api, times) if api == API_VERSIONS else b"", "0.8.2")
    assert sentence is not None
    assert "requires a login (SASL), and security.protocol is PLAINTEXT: set it to SASL_PLAINTEXT" in sentence


@pytest.fixture
def alerting() -> Iterator[int]:
    """The port of a listener that answers as one of TLS does: an alert to what is no handshake that it likes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link:
                    if link.recv(4096)[:2] == b"\x16\x03":
                        link.sendall(b"\x15\x03\x03\x00\x02\x02\x28")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_listener_that_speaks_tls_is_named_as_that(alerting: int) -> None:
    sentence = why_never([Broker(-1, "127.0.0.1", alerting)], dialect("0.8.2"), OPTION)
    assert sentence is not None
    assert f"127.0.0.1:{alerting}" in sentence
    assert "has a TLS listener at this address" in sentence


def test_one_that_closes_on_everything_or_is_out_of_reach_is_not_judged() -> None:
    assert said(lambda api, _: b"", "0.8.2") is None
    port = ports.reserve()
    assert why_never([Broker(4, "127.0.0.1", port.number)], dialect("0.8.2"), OPTION) is None
    port.release()


def test_the_second_broker_is_asked_too() -> None:
    with answering(lambda api, _: b"") as [first], answering(newer(*FOUR)) as [second]:
        found = why_never([Broker(0, *first), Broker(1, *second)], dialect("0.8.2"), OPTION)
    assert found is not None
    assert found.startswith("broker 1 (")


@pytest.mark.parametrize("kind", ["python", pytest.param("original", marks=[pytest.mark.real, pytest.mark.kafka07])])
def test_a_broker_of_0_7_is_named(kind: str, tmp_path: Path) -> None:
    with node_of(kind)(tmp_path) as node:
        found = why_never([Broker(-1, "127.0.0.1", node.port)], dialect("0.8.2"), OPTION)
    assert found is not None
    assert found.endswith(f"is Kafka 0.7, and {OPTION} is 0.8.2: set it to 0.7.2")
