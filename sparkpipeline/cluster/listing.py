"""ListOffsets asked of the leaders of many partitions: one question a leader, sent to all before the first answer is
waited for, and again for what another leader may answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError, LinkLost, RemoteError, WireError, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from sparkpipeline.errors import NoLeader, Refused, UnknownPartition
from zkconsumer.fetching.listoffsets import offset_rows

if TYPE_CHECKING:
    from sparkpipeline.cluster.brokers import Brokers

PURPOSE = "offsets"
PER_REQUEST = 2000  # partitions
_UNKNOWN, _NOT_LEADER = 3, (5, 6)

Times = Mapping[TopicPartition, int]  # ms since 1970; -2 the earliest, -1 the latest


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one partition's question: an offset (None: the log has none), or what was wrong with it."""

    broker: Broker | None
    offset: int | None = None
    error: WireError | None = None
    again: bool = False
    tries: int = 1

    @property
    def code(self) -> int | None:
        """The broker's error code."""
        return self.error.code if isinstance(self.error, BrokerError) else None

    @property
    def moved(self) -> bool:
        """Whether another leader may answer."""
        return isinstance(self.error, LinkLost) or self.code in _NOT_LEADER


def asked(brokers: Brokers, times: Times, spoken: Dialect) -> dict[TopicPartition, Answer]:
    """An answer for each partition, asked again where that may help."""
    answers: dict[TopicPartition, Answer] = {}
    left = dict(times)
    for number in brokers.attempts(brokers.access.election_ms / 1000) if left else ():
        answers |= _once(brokers, left, brokers.leaders(left, afresh=number > 0), spoken)
        left = {tp: at for tp, at in left.items() if answers[tp].again}
        lasting = number >= brokers.access.retries and any(not answers[tp].moved for tp in left)
        if not left or lasting:
            break
    return {tp: replace(answer, tries=number + 1) for tp, answer in answers.items()}


def _once(
    brokers: Brokers, times: Times, leaders: Mapping[TopicPartition, Broker], spoken: Dialect
) -> dict[TopicPartition, Answer]:
    """Every leader is sent its questions before the first answer is waited for."""
    led: dict[Broker, list[TopicPartition]] = {}
    for tp in times:
        led.setdefault(leaders[tp], []).append(tp)
    found: dict[TopicPartition, Answer] = {}
    for first in range(0, max(map(len, led.values())), PER_REQUEST):
        parts = {broker: tps[first : first + PER_REQUEST] for broker, tps in led.items() if tps[first:]}
        found |= _round(brokers, parts, times, spoken)
    return found


def _round(
    brokers: Brokers, parts: Mapping[Broker, list[TopicPartition]], times: Times, spoken: Dialect
) -> dict[TopicPartition, Answer]:
    links = {broker: brokers.link(broker, PURPOSE) for broker in parts}
    try:
        for broker, tps in parts.items():
            with suppress(LinkLost):  # the link says so again when it is asked for the answer
                links[broker].send(spoken.requests.list_offsets(spoken, {tp: times[tp] for tp in tps}))
        found: dict[TopicPartition, Answer] = {}
        for broker, tps in parts.items():
            found |= _answers(broker, links[broker], tps)
        return found
    finally:
        for link in links.values():
            if link.outstanding:  # we were ended while we waited: the answer would be the next question's
                link.close()


def _answers(broker: Broker, link: Link, tps: list[TopicPartition]) -> dict[TopicPartition, Answer]:
    try:
        rows = offset_rows(link.receive().body)
    except LinkLost as lost:
        return dict.fromkeys(tps, Answer(broker, error=lost, again=True))
    return {tp: _answer(broker, tp, rows.get(tp)) for tp in tps}


def _answer(broker: Broker, tp: TopicPartition, row: tuple[int, int | None] | None) -> Answer:
    if row is None:
        return Answer(broker, error=RemoteError(f"{tp} on {broker}: the answer leaves this partition out"))
    code, offset = row
    if code:
        return Answer(broker, error=BrokerError(code, f"{tp} on {broker}"), again=error_info(code).retriable)
    return Answer(broker, offset if offset is not None and offset >= 0 else None)


def offset_of(tp: TopicPartition, answer: Answer) -> int | None:
    """Raises UnknownPartition, NoLeader, Refused."""
    if answer.error is None:
        return answer.offset
    where = _where(tp) | {"broker": _address(answer.broker)}
    tried = f", also when asked {answer.tries} times" if answer.again else ""
    if answer.code == _UNKNOWN:
        raise UnknownPartition(f"the broker has no such partition{tried}", **where)
    if answer.moved:
        raise NoLeader(f"the leader does not answer for it{tried}: {answer.error}", **where)
    raise Refused(f"the broker does not tell offsets of it{tried}: {answer.error}", **where)


def _where(tp: TopicPartition) -> dict[str, object]:
    return {"topic": tp.topic, "partition": tp.partition}


def _address(broker: Broker | None) -> str | None:
    return None if broker is None else f"{broker.host}:{broker.port}"
