"""A shutdown while the start still waits for ZooKeeper: both end, the start with Closed."""

from __future__ import annotations

import socket
import threading

import pytest

from groundwork.tasks import now
from localkafka.waiting import wait_until
from zkconsumer.connector import ConsumerConnector
from zkconsumer.engine.engine import Engine
from zkconsumer.errors import Closed, Unreachable, ZooKeeperAway


@pytest.fixture
def silent():
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def connector(zookeeper: str, **options: object) -> ConsumerConnector:
    values = {"zookeeper.connect": zookeeper, "group.id": "g", "auto.offset.reset": "smallest", **options}
    return ConsumerConnector(values, "own")


def test_both_end_at_once(silent):
    ours = connector(silent)
    raised: list[BaseException] = []

    def start() -> None:
        try:
            ours.create_message_streams({"t": 1})
        except BaseException as e:
            raised.append(e)

    starter = threading.Thread(target=start)
    starter.start()
    wait_until(lambda: ours._engine is not None and ours._engine.assignment.session.started, 5, "the connection")
    began = now()
    ours.shutdown()
    starter.join(5)
    assert now() - began < 1
    assert [type(e) for e in raised] == [Closed]
    assert str(raised[0]) == "the connector was shut down while it started"


def test_a_server_that_says_nothing_is_unreachable_in_its_time(silent):
    ours = connector(silent, **{"zookeeper.connection.timeout.ms": 300})
    began = now()
    with pytest.raises(Unreachable, match=r"does not answer within 0\.3 s"):
        ours.create_message_streams({"t": 1})
    assert now() - began < 2


def test_a_session_that_is_lost_while_it_is_used_for_the_first_time_is_out_of_reach(monkeypatch):
    """As a server that restarts between the connection and the first nodes; a mirror took it for a mistake in its
    configuration, and ended with 78, after which systemd starts it no more."""

    def lost(engine: Engine) -> None:
        raise ZooKeeperAway("create /consumers: the connection to ZooKeeper at zk:1 was lost (ConnectionLoss)")

    monkeypatch.setattr(Engine, "start", lost)
    with pytest.raises(Unreachable, match=r"create /consumers: the connection .* during the start"):
        connector("127.0.0.1:1").create_message_streams({"t": 1})
