"""Sequences of groups and their offsets (section 6 of the broker model of coordinators)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from string import ascii_lowercase
from typing import Any

from tests.simulation.sequences.client import Client, Described, Joined
from tests.simulation.sequences.cluster import Cluster, Gone
from tests.simulation.sequences.sequence import (
    T_SLOW,
    U_SOON,
    Either,
    S,
    See,
    by,
    number,
    sequence,
    until,
)

OFFSETS = "__consumer_offsets"
GROUPS = "0.9"  # since then brokers coordinate members
SESSION_S = 6.0
_HEARD_S = 1.5  # followers have heard of the high watermark: to 0.10 the next coordinator reads no further (Q9)
_DELAY_S = 0.5  # group.initial.rebalance.delay.ms of the profile


@sequence("Q1", S, "offsets of a group without members")
def simple_commit(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q1")
    at = client.coordinator("q1")
    see("commit", client.commit(at, "q1", {("q1", 0): 5}).get(), {("q1", 0): 0})
    see("fetch: code and offset", tuple(client.committed(at, "q1", "q1").get()), (0, 5))
    if number(c.release) >= (0, 9):
        see("state", client.described(at, "q1").get().state, by(c, {"0": "Dead", "0.10": "Empty"}))


@sequence("Q2", S, "a commit without membership in a stable group", first=GROUPS)
def not_a_member(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q2")
    at = client.coordinator("q2")
    m1 = _alone(c, client, at, "q2")
    see("commit of the member", _committed(client, at, "q2", 5, m1), 0)
    see("commit without membership", _committed(client, at, "q2", 7), 25)
    see("fetch", tuple(client.committed(at, "q2", "q2").get()), (0, 5))


@sequence("Q3", S, "commits between join and sync", first=GROUPS)
def not_synced(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q3")
    at = client.coordinator("q3")
    m1 = client.join(at, "q3").get()
    see("joined", m1.code, 0)
    see("commit without membership", _committed(client, at, "q3", 7), by(c, {"0": 27, "2.4": 25}))
    see("commit of the member", _committed(client, at, "q3", 7, m1), 27)
    heartbeat = client.heartbeat(at, "q3", m1.generation, m1.member).get()
    see("heartbeat", heartbeat, by(c, {"0": 27, "2.6": 0}))


@sequence("Q4", S, "commits while a rebalance is under way", first=GROUPS)
def rebalancing(c: Cluster, see: See) -> None:
    one, two = Client(c), Client(c)
    c.create_topic("q4")
    at = one.coordinator("q4")
    m1 = _alone(c, one, at, "q4")
    joining = two.join(at, "q4")
    beat = until(c, lambda: one.heartbeat(at, "q4", m1.generation, m1.member).get())
    see("heartbeat", beat, 27)
    see("commit at g", _committed(one, at, "q4", 9, m1), 0)
    see("fetch", tuple(one.committed(at, "q4", "q4").get()), (0, 9))
    again = one.join(at, "q4", m1.member).get()
    m2 = joining.get()
    see("generations", (again.generation, m2.generation), (m1.generation + 1, m1.generation + 1))
    see("commit at g, before the sync", _committed(one, at, "q4", 10, m1), by(c, {"0": 27, "2.4": 22}))
    see("commit at g+1, before the sync", _committed(one, at, "q4", 10, again), 27)


@sequence("Q5", S, "a member that is silent for its session", first=GROUPS)
def silent(c: Cluster, see: See) -> None:
    one, two = Client(c), Client(c)
    c.create_topic("q5")
    at = one.coordinator("q5")
    m1 = _alone(c, one, at, "q5", session_s=2)
    joining = two.join(at, "q5", session_s=2, rebalance_s=2)
    m2 = joining.get()
    see("the other joined at", m2.generation, m1.generation + 1)
    see("members", m2.members, [m2.member])
    early = _committed(one, at, "q5", 7, m1)
    see("commit before the sync", early, by(c, {"0": 27, "2.4": 25}))
    see("synced", two.sync(at, "q5", m2, m2.members).get(), 0)
    see("commit", _committed(one, at, "q5", 7, m1), 25)
    see("heartbeat", one.heartbeat(at, "q5", m1.generation, m1.member).get(), 25)


@sequence("Q6", S, "metadata of 4097 characters")
def long_metadata(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q6", [c.brokers[:1]] * 2)
    at = client.coordinator("q6")
    codes = client.commit(at, "q6", {("q6", 0): (5, "m" * 4097), ("q6", 1): (6, "m" * 4096)}).get()
    see("commit", codes, {("q6", 0): 12, ("q6", 1): 0})
    first = tuple(client.committed(at, "q6", "q6", 0).get())
    # 0.8.2 puts what it refused into its cache, though not into its log: it is gone with the next coordinator.
    see("fetch of the first", first, by(c, {"0": (0, 5), "0.9": (0, -1)}))
    see("fetch of the second", tuple(client.committed(at, "q6", "q6", 1).get()), (0, 6))


@sequence("Q13", S, "a group loses its last member and gets another", first=GROUPS)
def empty_again(c: Cluster, see: See) -> None:
    one, two = Client(c), Client(c)
    c.create_topic("q13")
    at = one.coordinator("q13")
    m1 = _alone(c, one, at, "q13")
    see("first generation", m1.generation, 1)
    see("left", one.leave(at, "q13", m1.member).get(), 0)
    described = until(c, lambda: _members(one.described(at, "q13").get()) == 0 and one.described(at, "q13").get())
    see("state", described, Described(by(c, {"0": "Dead", "0.10": "Empty"}), []))
    joining = two.join(at, "q13")
    see("next generation", joining.get().generation, by(c, {"0": 1, "0.10": 3}))
    see.took("joined after", joining.took_s, *by(c, {"0": (0, 10), "0.11": (0.9 * _DELAY_S, 10)}))


@sequence("Q14", S, "members without an id, and static ones", first="2.3")
def static(c: Cluster, see: See) -> None:
    one, two = Client(c), Client(c)
    c.create_topic("q14")
    at = one.coordinator("q14")
    named = one.join(at, "q14d", version=4).get()
    see("v4 without an id: code, an id", (named.code, bool(named.member)), (79, True))
    see("v4 with it", one.join(at, "q14d", named.member, version=4).get().code, 0)
    m1 = one.join(at, "q14", instance="i", version=5).get()
    see("static", m1.code, 0)
    see("synced", one.sync(at, "q14", m1, m1.members, "i").get(), 0)
    m2 = two.join(at, "q14", instance="i", version=5).get()
    see(
        "again: code, generation, another id",
        (m2.code, m2.generation, m2.member != m1.member),
        (0, m1.generation, True),
    )
    see("leader that is named", m2.leader == m1.member, True)
    see("heartbeat of the first", one.heartbeat(at, "q14", m1.generation, m1.member, "i").get(), 82)
    commit = one.commit(at, "q14", {("q14", 0): 5}, generation=m1.generation, member=m1.member, instance="i").get()
    see("commit of the first", commit, {("q14", 0): 82})
    see("heartbeat of the second", two.heartbeat(at, "q14", m2.generation, m2.member, "i").get(), 0)


# ---- two and three brokers


@sequence("Q7", T_SLOW, "a commit that is not replicated in time", slow=True)
def hidden_commit(c: Cluster, see: See) -> None:
    client, other = Client(c), Client(c)
    c.create_topic("q7", [[c.controller()]])
    group, at = _group(c, client, "q7", lambda node: node == c.controller())
    (follower,), partition = _others(c, at), _partition(client, group)
    see("commit", _committed(client, at, group, 10, topic="q7"), 0)
    with _stopped(c, follower):
        asked = client.commit(at, group, {("q7", 0): 11})
        c.wait(1)
        see("fetched meanwhile", tuple(other.committed(at, group, "q7").get()), (0, 10))
        see("commit behind a stopped follower", asked.get(60), {("q7", 0): by(c, {"0": 7, "4.0": 15})})
        see.took("answered after", asked.took_s, 4.5, 20)
        see("fetched then", tuple(client.committed(at, group, "q7").get()), (0, 10))
    _whole(c, partition)
    c.wait(2)
    back = tuple(client.committed(at, group, "q7").get())
    see("fetched with the follower back", back, by(c, {"0": (0, 10), "4.0": (0, 11)}))
    c.move_leader(OFFSETS, partition, follower)
    moved = client.coordinator(group, other_than=at)
    see(
        "fetched of the next coordinator",
        until(c, lambda: _loaded(client.committed(moved, group, "q7").get())),
        (0, 11),
    )


@sequence("Q8", T_SLOW, "an offset that is not stable", first="2.5", slow=True)
def unstable(c: Cluster, see: See) -> None:
    client, other = Client(c), Client(c)
    c.create_topic("q8", [[c.controller()]])
    group, at = _group(c, client, "q8", lambda node: node == c.controller())
    see("commit", _committed(client, at, group, 10, topic="q8"), 0)
    see("stable", tuple(other.stable(at, group, "q8").get()), (0, 10))
    with _stopped(c, *_others(c, at)):
        asked = client.commit(at, group, {("q8", 0): 11})
        c.wait(1)
        see("stable meanwhile", other.stable(at, group, "q8").get().code, by(c, {"0": 88, "4.0": 16}))
        see("commit", asked.get(60), {("q8", 0): by(c, {"0": 7, "4.0": 15})})
    _whole(c, _partition(client, group))


@sequence("Q9", U_SOON, "the coordinator dies behind the first commit of its partition", slow=True)
def lost_first_commit(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q9", [[c.controller()]])
    group, at = _group(c, client, "q9", lambda node: node != c.controller(), unused=True)
    see("commit", _committed(client, at, group, 13, topic="q9"), 0)
    with _killed(c, at):
        moved = client.coordinator(group, brokers=_others(c, at), other_than=at)
        told = until(c, lambda: _loaded(client.committed(moved, group, "q9").get()))
        # 4.x answers what lies below the high watermark that the new leader knows, which rises a moment later.
        either = Either([(0, 13), (0, -1)])
        see("fetched of the next coordinator", told, by(c, {"0": either, "0.11": (0, 13), "4.0": either}))
        until(c, lambda: client.committed(moved, group, "q9").get().offset == 13, 3)
        later = tuple(client.committed(moved, group, "q9").get())
        see("fetched later", later, by(c, {"0": either, "0.11": (0, 13)}))


@sequence("Q10", U_SOON, "the coordinator dies under a stable group", first=GROUPS, slow=True)
def failover(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q10", [[c.controller()]])
    group, at = _group(c, client, "q10", lambda node: node != c.controller())
    m1 = _alone(c, client, at, group)
    c.wait(_HEARD_S)
    with _killed(c, at):
        commits, beats = set[int](), set[int]()

        def over() -> bool:
            for broker in _others(c, at):
                beat = client.heartbeat(broker, group, m1.generation, m1.member).get()
                code = _committed(client, broker, group, 5, m1, topic="q10")
                beats.add(beat)
                commits.add(code)
                if code == 0:
                    return True
            return False

        see("a coordinator takes over", until(c, over, 60, 0.005), True)
        # 16: of brokers that have not taken over.
        see("commits meanwhile", commits - by(c, {"0": {0, 16}, "2.0": {0, 14, 16}}), set())
        see("heartbeats meanwhile", beats - {0, 16}, set())
        moved = client.coordinator(group, brokers=_others(c, at), other_than=at)
        see("heartbeat then", client.heartbeat(moved, group, m1.generation, m1.member).get(), 0)


@sequence("Q11", U_SOON, "the coordinator dies between join and sync", first=GROUPS, slow=True)
def forgotten_generation(c: Cluster, see: See) -> None:
    one, two, three = Client(c), Client(c), Client(c)
    c.create_topic("q11", [[c.controller()]])
    group, at = _group(c, one, "q11", lambda node: node != c.controller())
    alone = _alone(c, one, at, group)
    m1, m2 = _entered(c, at, group, (one, alone), two)
    _synced(at, group, (one, m1), (two, m2))
    joining = three.join(at, group)
    assert until(c, lambda: one.heartbeat(at, group, m1.generation, m1.member).get() == 27)
    asked = [one.join(at, group, m1.member), two.join(at, group, m2.member)]
    next1, next2, m3 = asked[0].get(), asked[1].get(), joining.get()
    g = m1.generation
    see("generations handed out", {next1.generation, next2.generation, m3.generation}, {g + 1})
    c.wait(_HEARD_S)
    with _killed(c, at):
        moved = one.coordinator(group, brokers=_others(c, at), other_than=at)
        beat = until(c, lambda: _told(one.heartbeat(moved, group, g + 1, m1.member).get()))
        see("heartbeat at g+1", beat, [22])
        members = until(c, lambda: one.described(moved, group).get().members)
        see("members are the two of g", members == sorted((m1.member, m2.member)), True)
        # The leader first: it makes a rebalance, where a follower that joins again is told the generation there is.
        leader, follower = ((one, m1), (two, m2)) if m1.leader == m1.member else ((two, m2), (one, m1))
        first = leader[0].join(moved, group, leader[1].member)
        assert until(c, lambda: follower[0].heartbeat(moved, group, g, follower[1].member).get() == 27)
        second = follower[0].join(moved, group, follower[1].member)
        see("generation of the next rebalance", {first.get(60).generation, second.get(60).generation}, {g + 1})


@sequence("Q12", U_SOON, "session timers begin again with the next coordinator", first=GROUPS, slow=True)
def timers(c: Cluster, see: See) -> None:
    one, two = Client(c), Client(c)
    c.create_topic("q12", [[c.controller()]])
    group, at = _group(c, one, "q12", lambda node: node != c.controller())
    alone = _alone(c, one, at, group, session_s=SESSION_S)
    m1, m2 = _entered(c, at, group, (one, alone), two)
    _synced(at, group, (one, m1), (two, m2))
    c.wait(_HEARD_S)
    see("heartbeat of the one", one.heartbeat(at, group, m1.generation, m1.member).get(), 0)
    c.wait(1)
    see("heartbeat of the other", two.heartbeat(at, group, m2.generation, m2.member).get(), 0)
    killed_at = c.now()
    with _killed(c, at):
        moved = two.coordinator(group, brokers=_others(c, at), other_than=at)

        def expired() -> bool:
            return two.heartbeat(moved, group, m2.generation, m2.member).get() == 27

        see("the one expires", until(c, expired, 60, 0.2), True)
        see.took("behind the kill", c.now() - killed_at, SESSION_S + 2, 60)


@sequence("Q15", U_SOON, "a coordinator that was stopped, in its first instant", first=GROUPS, slow=True)
def zombie(c: Cluster, see: See) -> None:
    client, other, third = Client(c), Client(c), Client(c)
    c.create_topic("q15", [[c.controller()]])
    group, at = _group(c, client, "q15", lambda node: node != c.controller())
    ended = number(c.release) < (0, 10)  # where 30 s is the longest session
    m1 = _alone(c, client, at, group, session_s=30 if ended else 120)
    see("commit", _committed(client, at, group, 20, m1, topic="q15"), 0)
    for each in (other, third):
        each.committed(at, group, "q15").get()  # connected before the broker stops
    c.wait(_HEARD_S)
    with _stopped(c, at):
        moved = client.coordinator(group, brokers=_others(c, at), other_than=at)
        assert until(c, lambda: client.heartbeat(moved, group, m1.generation, m1.member).get() == 0, 60)
        see("commit at the next one", _committed(client, moved, group, 21, m1, topic="q15"), 0)
        asked = (
            client.heartbeat(at, group, m1.generation, m1.member),
            other.committed(at, group, "q15"),
            third.commit(at, group, {("q15", 0): 22}, generation=m1.generation, member=m1.member),
        )
    beat, fetched, commit = asked[0].get(60), asked[1].get(60), asked[2].get(60)
    # To 0.11 another one is elected only after half a minute, in which the session may end at the old one.
    see("heartbeat at the old one", beat, Either((0, 16, 25) if ended else (0, 16)))
    see("fetch at the old one", tuple(fetched), Either([(0, 20), (16, -1)]))
    see(
        "commit at the old one",
        commit,
        Either([{("q15", 0): code} for code in ((7, 15, 16, 22) if ended else (7, 15, 16))]),
    )
    _whole(c, _partition(client, group))
    told = until(c, lambda: _loaded(client.committed(client.coordinator(group), group, "q15").get()))
    see("fetched at the end", told, (0, 21))


# ---- groups


def _alone(c: Cluster, client: Client, at: int, group: str, session_s: float = 10) -> Joined:
    """The only member of a stable group."""
    joined = client.join(at, group, session_s=session_s).get()
    assert joined.code == 0, f"joined with {joined.code}"
    _synced(at, group, (client, joined))
    return joined


def _entered(c: Cluster, at: int, group: str, there: tuple[Client, Joined], newcomer: Client) -> tuple[Joined, Joined]:
    """A second member joins; both before their sync."""
    client, member = there
    joining = newcomer.join(at, group)
    assert until(c, lambda: client.heartbeat(at, group, member.generation, member.member).get() == 27)
    return client.join(at, group, member.member).get(), joining.get()


def _synced(at: int, group: str, *members: tuple[Client, Joined]) -> None:
    leader_first = sorted(members, key=lambda each: each[1].member != each[1].leader)
    everybody = [joined.member for _, joined in members]
    asked = [
        client.sync(at, group, joined, everybody if joined.member == joined.leader else ())
        for client, joined in leader_first
    ]
    codes = [each.get() for each in asked]
    assert codes == [0] * len(members), f"synced with {codes}"


def _committed(
    client: Client, at: int, group: str, offset: int, member: Joined | None = None, topic: str | None = None
) -> Any:
    """The code of a commit of one partition; topic: that of the group's name unless it is given."""
    who = {"generation": member.generation, "member": member.member} if member else {}
    codes = client.commit(at, group, {(topic or group, 0): offset}, **who).get()  # type: ignore[arg-type]
    return codes if isinstance(codes, Gone) else codes[topic or group, 0]


def _members(described: Any) -> int:
    return -1 if isinstance(described, Gone) else len(described.members)


def _told(code: Any) -> list[int]:
    """A code that does not only say that the coordinator is about to take over."""
    return [] if isinstance(code, Gone) or code in (0, 14, 15, 16) else [code]


def _loaded(told: Any) -> tuple[int, int] | None:
    return None if isinstance(told, Gone) or told.code in (14, 15, 16) else tuple(told)


def _group(
    c: Cluster, client: Client, prefix: str, fits: Callable[[int], bool], unused: bool = False
) -> tuple[str, int]:
    """A group and its coordinator, where that fits.  unused: nothing was ever written to its partition."""
    for letter in ascii_lowercase:
        group = f"{prefix}-{letter}"  # so short that its hash is positive, about which releases differ
        at = client.coordinator(group)
        if not fits(at):
            continue
        if unused and client.offset(OFFSETS, -1, partition=_partition(client, group), broker=at).get().offset:
            continue
        _whole(c, _partition(client, group))
        return group, at
    raise AssertionError("no group fits")


def _partition(client: Client, group: str) -> int:
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    told = until(client.cluster, lambda: client.metadata(OFFSETS, client.cluster.controller()).get()["partitions"])
    return (code & 0x7FFFFFFF) % len(told)


def _whole(c: Cluster, partition: int) -> None:
    assert until(c, lambda: len(c.isr_of(OFFSETS, partition)) == len(c.brokers), 60), "all replicas are in sync"


def _others(c: Cluster, broker: int) -> list[int]:
    return [each for each in c.brokers if each != broker]


@contextmanager
def _stopped(c: Cluster, broker: int) -> Iterator[None]:
    c.stop(broker)
    try:
        yield
    finally:
        c.go_on(broker)


@contextmanager
def _killed(c: Cluster, broker: int) -> Iterator[None]:
    c.kill(broker)
    try:
        yield
    finally:
        c.start(broker)
