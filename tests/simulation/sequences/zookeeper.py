"""Q19 and Q20 of broker-model-coordinators.md 6: one text each, for a simulated ensemble and for a real one.

The ensemble has three servers, a tick of 2 s and a syncLimit of 5.  The first one follows.
"""

from __future__ import annotations

from typing import Any, Protocol

from kazoo.exceptions import ConnectionLoss, NodeExistsError

SESSION_S, TICK_S, LIMIT_S = 6.0, 2.0, 10.0
SLACK_S = 1.0  # of a real machine


class Ensemble(Protocol):
    def client(self, *servers: int) -> Any:
        """A kazoo client that is connected to the first of these; it takes the next one after a loss."""

    def lose_answers(self, client: Any) -> None:
        """What the client sends still arrives, and no answer comes back."""

    def break_off(self, client: Any) -> None:
        """Its connection ends; it reconnects to the other server."""

    def cut(self) -> None:
        """The first server is cut off from the others; clients still reach all."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


def answers_that_are_lost(ensemble: Ensemble) -> None:
    """Q19: what was executed though its answer was lost (Z20 to Z22)."""
    client, other = ensemble.client(0, 1), ensemble.client(2)
    session = client.client_id
    client.create("/q19")
    assert _lost(ensemble, client, client.create_async, "/q19/owner", b"a", ephemeral=True) is ConnectionLoss
    assert client.client_id == session, "the session goes on"
    try:
        client.create("/q19/owner", b"a", ephemeral=True)
        raise AssertionError("the first one was executed")
    except NodeExistsError:
        pass
    assert client.get("/q19/owner")[1].ephemeralOwner == session[0]
    client.create("/q19/line")
    assert _lost(ensemble, client, client.create_async, "/q19/line/n-", b"", sequence=True) is ConnectionLoss
    repeated = client.create("/q19/line/n-", b"", sequence=True)
    assert repeated == "/q19/line/n-0000000001"
    client.delete(repeated)
    assert client.create("/q19/line/n-", b"", sequence=True) == "/q19/line/n-0000000002"  # a deletion counts nothing
    other.sync("/q19")
    assert sorted(other.get_children("/q19/line")) == ["n-0000000000", "n-0000000002"]


def _lost(ensemble: Ensemble, client: Any, ask: Any, *args: Any, **named: Any) -> type[Exception] | None:
    """What the client is told of a request that was executed, once it is connected again."""
    ensemble.lose_answers(client)
    answer = ask(*args, **named)
    ensemble.sleep(0.5)
    assert not answer.ready()
    ensemble.break_off(client)
    _wait(ensemble, answer.ready, SESSION_S)
    _wait(ensemble, lambda: client.connected, SESSION_S)
    return None if answer.exception is None else type(answer.exception)


def a_follower_that_is_cut_off(ensemble: Ensemble) -> None:
    """Q20: it answers reads of a session that the majority has ended, and no writes (Z15, Z16)."""
    client, other = ensemble.client(0), ensemble.client(1, 2)
    client.create("/q20", b"a", ephemeral=True)
    other.sync("/q20")
    assert other.exists("/q20") is not None
    ensemble.cut()
    cut_at = ensemble.now()
    while other.exists("/q20") is not None:
        assert client.exists("/q20") is not None
        assert ensemble.now() - cut_at < SESSION_S + TICK_S + SLACK_S, "the majority ends the session"
        ensemble.sleep(0.1)
    gone_s = ensemble.now() - cut_at
    assert gone_s > SESSION_S - TICK_S / 2 - 0.1, f"after {gone_s:.1f} s: a touch is at most half a tick old"
    assert client.exists("/q20") is not None, "its server knows nothing of that"
    write = client.set_async("/q20", b"b")
    _wait(ensemble, write.ready, LIMIT_S + SLACK_S - gone_s)
    assert type(write.exception) is ConnectionLoss
    assert ensemble.now() - cut_at > LIMIT_S - TICK_S


def _wait(ensemble: Ensemble, ready: Any, seconds: float) -> None:
    until = ensemble.now() + seconds
    while not ready():
        assert ensemble.now() < until, f"not within {seconds:g} s"
        ensemble.sleep(0.02)


SEQUENCES = {"Q19": answers_that_are_lost, "Q20": a_follower_that_is_cut_off}
