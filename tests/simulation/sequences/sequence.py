"""A sequence of the broker model: a few requests, what came back, and what a release answers by the tables.

    @sequence("16", brokers=1, first="0.11", title="...")
    def duplicates(c: Cluster, see: See) -> None:
        ...
        see("6 again", produced.code, by(c, {"0": 0}))

The text is the same for real brokers and simulated ones.  What was seen of each is compared with what is expected, and
with what was seen of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.simulation.sequences.cluster import Cluster

Value = TypeVar("Value")
Number = tuple[int, ...]

SEQUENCES: dict[str, Sequence] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Sequences of one profile share a cluster.  session_s: a broker that is silent for longer counts as dead."""

    name: str
    brokers: int
    session_s: float
    settings: Mapping[str, str]


_LAG = {"replica.lag.time.max.ms": "2000"}
_SLOW_LAG = {"replica.lag.time.max.ms": "30000"}
_COMMON = {"auto.create.topics.enable": "true", "delete.topic.enable": "true", "num.partitions": "1"}
_OFFSETS3 = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "12",
    "transaction.state.log.num.partitions": "4",  # with one replica, so that one stopped broker holds up no other
}
_OFFSETS2 = {**_OFFSETS3, "offsets.topic.replication.factor": "2"}

S = Profile(
    "S",
    1,
    6,
    {
        **_COMMON,
        "log.retention.check.interval.ms": "1000",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "500",
    },
)
# Stopped brokers keep their sessions: only the leader takes them out of the ISR.
T = Profile("T", 2, 60, {**_COMMON, **_LAG, **_OFFSETS2})
T_SLOW = Profile("T, lag 30 s", 2, 60, {**_COMMON, **_SLOW_LAG, **_OFFSETS2})
U_SLOW = Profile("U, lag 30 s", 3, 60, {**_COMMON, **_SLOW_LAG, **_OFFSETS3})
# Killed brokers are noticed soon.
T_SOON = Profile("T, session 3 s", 2, 3, {**_COMMON, **_LAG, **_OFFSETS2})
T_UNCLEAN = Profile(
    "T, session 3 s, unclean", 2, 3, {**_COMMON, **_LAG, **_OFFSETS2, "unclean.leader.election.enable": "true"}
)
U_SOON = Profile("U, session 3 s", 3, 3, {**_COMMON, **_SLOW_LAG, **_OFFSETS3})


def number(release: str) -> Number:
    return tuple(int(part) for part in release.split("."))


def by(c: Cluster, rows: Mapping[str, Value]) -> Value:
    """The value of the newest row that is not newer than the cluster's release; "0" is older than all."""
    own = number(c.release)
    fitting = [row for row in rows if number(row) <= own]
    return rows[max(fitting, key=number)]


def until(c: Cluster, check: Callable[[], Value], within_s: float = 30.0, every_s: float = 0.05) -> Value:
    """Wait until check() is true; its last value, true or not."""
    deadline = c.now() + within_s
    while not (found := check()) and c.now() < deadline:
        c.wait(every_s)
    return found


class Either(tuple[Any, ...]):
    """Any of these is right: the moment decides."""


@dataclass
class See:
    """rows: what, what was seen, what is expected."""

    rows: list[tuple[str, Any, Any]] = field(default_factory=list)

    def __call__(self, what: str, seen: Any, expected: Any) -> None:
        self.rows.append((what, seen, expected))

    def took(self, what: str, seconds: float, least: float, below: float) -> None:
        """Note a time by the bounds that it keeps."""
        bounds = f"{least:g} to {below:g} s"
        self(what, bounds if least <= seconds < below else f"{seconds:.2f} s", bounds)

    @property
    def wrong(self) -> list[str]:
        return [
            f"{what}: {seen!r}, expected {expected!r}" for what, seen, expected in self.rows if not _is(seen, expected)
        ]


def _is(seen: Any, expected: Any) -> bool:
    return seen in expected if isinstance(expected, Either) else bool(seen == expected)


@dataclass(frozen=True)
class Sequence:
    """key: its number in the tables.  first, last: releases that it has something to say about.  slow: it waits for
    tens of seconds."""

    key: str
    title: str
    profile: Profile
    run: Callable[[Cluster, See], None]
    first: str
    last: str
    slow: bool

    def says_something_about(self, release: str) -> bool:
        own = number(release)
        return number(self.first) <= own and (not self.last or own[: len(number(self.last))] <= number(self.last))


def sequence(
    key: str, profile: Profile, title: str, *, first: str = "0.8.2", last: str = "", slow: bool = False
) -> Callable[[Callable[[Cluster, See], None]], Callable[[Cluster, See], None]]:
    def register(run: Callable[[Cluster, See], None]) -> Callable[[Cluster, See], None]:
        assert key not in SEQUENCES, key
        SEQUENCES[key] = Sequence(key, title, profile, run, first, last, slow)
        return run

    return register


def watched(each: Sequence, c: Cluster) -> See:
    """Run a sequence on a cluster; what it saw.  Closes what it left open."""
    see = See()
    try:
        each.run(c, see)
    except Exception as broken:  # of a sequence that took no answer for one, too: the others go on
        see("went on to its end", f"{type(broken).__name__}: {broken}".partition("\n")[0], "yes")
    finally:
        c.disconnect()
    return see
