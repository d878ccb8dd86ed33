"""Calls for many nodes, a window at a time: what is asked for when one of them fails."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError

from tests.fakes.znodes import Answer, FakeSession, FakeZookeeper
from zkconsumer.errors import ConsumerError, ZooKeeperAway
from zkconsumer.session.zkcalls import WINDOW

PATHS = [f"/offsets/{n}" for n in range(2 * WINDOW + 10)]


class Closed(FakeZookeeper):
    """With one node that says no, in this way."""

    def set_async(self, path: str, data: bytes, version: int = -1) -> Answer:
        if path == PATHS[3]:
            return Answer(error=self.says)
        return super().set_async(path, data, version)

    says: Exception = NoAuthError()


def a_world() -> tuple[Closed, FakeSession]:
    zookeeper = Closed(dict.fromkeys(PATHS, b"1"))
    return zookeeper, zookeeper.session()


def written(zookeeper: FakeZookeeper) -> list[str]:
    return [path for path in PATHS if zookeeper.nodes[path].data == b"2"]


def test_one_node_that_is_closed_to_us_keeps_none_of_the_others_from_being_written():
    zookeeper, session = a_world()
    with pytest.raises(ConsumerError, match=r"write /offsets/3: .*NoAuthError.*zookeeper.auth"):
        session.write(dict.fromkeys(PATHS, (b"2", 0)))
    assert written(zookeeper) == [path for path in PATHS if path != PATHS[3]]


def test_nothing_more_is_written_once_the_session_went():
    zookeeper, session = a_world()
    zookeeper.says = ConnectionLoss()
    with pytest.raises(ZooKeeperAway, match="write /offsets/3"):
        session.write(dict.fromkeys(PATHS, (b"2", 0)))
    assert written(zookeeper) == [path for path in PATHS[:WINDOW] if path != PATHS[3]]


def test_each_window_is_asked_of_the_session_it_was_begun_in(monkeypatch):
    zookeeper, session = a_world()
    asked: list[int | None] = []

    def connected(session_id: int | None) -> Any:
        asked.append(session_id)
        if len(asked) == 2:
            raise ZooKeeperAway("another session")
        return zookeeper

    monkeypatch.setattr(session, "_connected", connected)
    with pytest.raises(ZooKeeperAway, match="another session"):
        session.delete(dict.fromkeys(PATHS[10:], 0), session_id=7)
    assert asked == [7, 7]
    assert [path for path in PATHS if path in zookeeper.nodes] == PATHS[:10] + PATHS[10 + WINDOW :]
