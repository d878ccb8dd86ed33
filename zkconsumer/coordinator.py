"""Committed offsets asked of brokers, in either store.  Plain blocking calls; knows no greenlet, no ZooKeeper client.

    zookeeper   OffsetCommit and OffsetFetch v0: any broker writes and reads the node /consumers/GROUP/offsets/TOPIC/N
    kafka       v1 and later: the group's coordinator, which GroupCoordinator names

    code             what is done
    14               the coordinator still loads: wait, ask the same one again
    15, 16           there is none, or another one: wait, look it up again
    a lost link      of a coordinator: look it up again; of the broker we were given: told at once

Asked again only for the partitions that need it, at most `retries` times and not after `timeout_ms`.  A commit that is
repeated after a lost link writes the same position twice, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkawire.dialects import Dialect, Store
from kafkawire.errors import LinkLost, RemoteError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.v08.requests import Request
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.refusals import CoordinatorAway, Refused, refusal

PURPOSE = "offsets"
LOADING = 14
ELSEWHERE = (15, 16)
NOTHING_IN_ZOOKEEPER = 3  # OffsetFetch v0 says "nothing committed" with the code of an unknown partition


@dataclass(frozen=True, slots=True)
class _Answer:
    """One partition's row of a reply, or the error that came instead of one."""

    broker: Broker
    row: Mapping[str, Any] | None
    error: WireError | None = None
    again: bool = False


class Coordinator:
    """Commits and reads offsets of any group, starting from one broker.  One caller at a time."""

    def __init__(
        self,
        broker: Broker,
        links: Links,
        dialect: Dialect,
        retries: int = 10,
        backoff_ms: int = 1000,
        timeout_ms: int = 30000,
    ) -> None:
        self._broker = broker
        self._links = links
        self._dialect = dialect
        self._retries = retries
        self._backoff_s = backoff_ms / 1000
        self._timeout_s = timeout_ms / 1000
        self._known: dict[str, Broker] = {}  # group -> its coordinator, until it says that it is not

    def find(self, group: str) -> Broker:
        """Who coordinates a group, asked anew.  Raises CoordinatorAway, LinkLost, LocalError (older than 0.8.2).

        The first such request a cluster ever gets creates the topic __consumer_offsets.
        """
        self._known.pop(group, None)
        for last in self._tries():
            try:
                return self._look_up(group)
            except CoordinatorAway:
                if last:
                    raise
        raise AssertionError("the last try returns or raises")

    def commit(
        self, group: str, positions: Mapping[TopicPartition, tuple[int, str]], store: Store
    ) -> dict[TopicPartition, WireError | None]:
        """Write (position, metadata) each.  Per partition None, or why it is not known to be written.

        Raises LocalError when the release has no such store.
        """
        requests = self._dialect.requests

        def request(left: Sequence[TopicPartition]) -> Request:
            return requests.offset_commit(self._dialect, group, {tp: positions[tp] for tp in left}, store)  # type: ignore[no-any-return]

        answers = self._ask(group, store, list(positions), request)
        return {tp: self._failure(group, tp, positions[tp][0], answers[tp]) for tp in positions}

    def fetch(self, group: str, tps: Sequence[TopicPartition], store: Store) -> dict[TopicPartition, Committed]:
        """Read what is committed.  Raises LinkLost or Refused when nobody could be asked, LocalError."""
        requests = self._dialect.requests

        def request(left: Sequence[TopicPartition]) -> Request:
            return requests.offset_fetch(self._dialect, group, left, store)  # type: ignore[no-any-return]

        answers = self._ask(group, store, list(tps), request)
        for answer in answers.values():
            if isinstance(answer.error, (LinkLost, Refused)):
                raise answer.error
        return {tp: self._committed(group, tp, store, answers[tp]) for tp in tps}

    # ---- asking ------------------------------------------------------------------------------------------------

    def _tries(self) -> Any:
        """One False per try, with the back-off between them; True for the last."""
        deadline = time.monotonic() + self._timeout_s
        for number in range(self._retries + 1):
            last = number == self._retries or time.monotonic() + self._backoff_s >= deadline
            yield last
            if last:
                return
            time.sleep(self._backoff_s)

    def _ask(
        self,
        group: str,
        store: Store,
        tps: list[TopicPartition],
        request: Callable[[Sequence[TopicPartition]], Request],
    ) -> dict[TopicPartition, _Answer]:
        answers: dict[TopicPartition, _Answer] = {}
        left = tps
        if not left:
            return answers
        for _ in self._tries():
            answers |= self._once(group, store, left, request(left))
            left = [tp for tp in left if answers[tp].again]
            if not left:
                break
        return answers

    def _once(
        self, group: str, store: Store, tps: Sequence[TopicPartition], request: Request
    ) -> dict[TopicPartition, _Answer]:
        broker = self._broker
        try:
            if store == "kafka":
                broker = self._known.get(group) or self._look_up(group)
            reply = self._links.link(broker, PURPOSE).call(request)
        except (LinkLost, Refused) as error:
            self._known.pop(group, None)
            again = isinstance(error, CoordinatorAway) or broker != self._broker
            return dict.fromkeys(tps, _Answer(broker, None, error, again))
        rows = {TopicPartition(t["topic"], row["partition"]): row for t in reply["topics"] for row in t["partitions"]}
        if any(row["error"] in ELSEWHERE for row in rows.values()):
            self._known.pop(group, None)
        return {tp: self._answer(group, tp, broker, rows.get(tp)) for tp in tps}

    def _answer(self, group: str, tp: TopicPartition, broker: Broker, row: Mapping[str, Any] | None) -> _Answer:
        if row is None:
            missing = RemoteError(f"group {group}, {tp} on {broker}: the answer leaves this partition out")
            return _Answer(broker, None, missing)
        return _Answer(broker, row, again=row["error"] == LOADING or row["error"] in ELSEWHERE)

    def _look_up(self, group: str) -> Broker:
        """Ask once.  Raises CoordinatorAway (15), another Refused, LinkLost, LocalError."""
        request = self._dialect.requests.group_coordinator(self._dialect, group)
        reply = self._links.link(self._broker, PURPOSE).call(request)
        if reply["error"]:
            raise refusal(reply["error"], self._broker, group=group)
        found = reply["coordinator"]
        self._known[group] = Broker(found["node_id"], found["host"], found["port"])
        return self._known[group]

    # ---- reading answers ---------------------------------------------------------------------------------------

    def _failure(self, group: str, tp: TopicPartition, position: int, answer: _Answer) -> WireError | None:
        if answer.row is None:
            return answer.error
        code = answer.row["error"]
        return refusal(code, answer.broker, tp, position, group) if code else None

    def _committed(self, group: str, tp: TopicPartition, store: Store, answer: _Answer) -> Committed:
        """NONE only where the broker says so; every other code, and every number that is none, is Unknown."""
        if answer.row is None:
            return Unknown(str(answer.error))
        code, offset = answer.row["error"], answer.row["offset"]
        if code == 0 and offset >= 0:
            return int(offset)
        nothing = NOTHING_IN_ZOOKEEPER if store == "zookeeper" else 0
        if code == nothing and offset == -1:
            return NONE
        if code:
            return Unknown(str(refusal(code, answer.broker, tp, group=group)))
        return Unknown(f"group {group}, {tp} on {answer.broker}: the committed offset is {offset}, which is none")
