"""Ports: below the ephemeral range, and nobody else's."""

from __future__ import annotations

import socket
import sys

import pytest

from localkafka import ports
from localkafka.errors import LocalKafkaError
from tests import children


def test_reserved_ports_are_free_and_below_the_ephemeral_range() -> None:
    port = ports.reserve()
    assert ports.FIRST <= port.number < ports.LAST < 32768
    with socket.create_server((ports.HOST, port.number)):
        assert ports.answers(ports.HOST, port.number)
    port.release()


def test_a_reservation_holds_against_this_process_too() -> None:
    port = ports.reserve()
    with pytest.raises(LocalKafkaError, match=f"port {port.number} on 127.0.0.1 is taken"):
        ports.reserve(port.number)
    port.release()
    ports.reserve(port.number).release()


def test_a_reservation_holds_against_other_processes_and_ends_with_its_holder() -> None:
    program = "from localkafka import ports; print(ports.reserve().number, flush=True); input()"
    with children.started([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        number = int(other.stdout.readline())
        with pytest.raises(LocalKafkaError, match="is taken"):
            ports.reserve(number)
        other.kill()
        other.wait(10)
    ports.reserve(number).release()


def test_a_port_somebody_listens_on_is_taken() -> None:
    port = ports.reserve()
    port.release()
    with socket.create_server((ports.HOST, port.number)), pytest.raises(LocalKafkaError, match="is taken"):
        ports.reserve(port.number)


def test_nobody_answers_on_a_free_port() -> None:
    port = ports.reserve()
    assert not ports.answers(ports.HOST, port.number)
    port.release()
