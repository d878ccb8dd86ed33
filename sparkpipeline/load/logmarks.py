"""Check before a plan that a partition's log is still the one that was loaded before.

A topic that was deleted and created again has a new log, in which the job's position means nothing: where the log is
longer already, everything before the position would be left out.  So each manifest keeps, for each position,

    offset, crc       of the message before it: CRC-32 of key and value, as it was when the batch was planned; it is
                      fetched again and compared.  Not where retention or the log cleaner has removed it.  Behind a
                      transaction stands its marker, so there it is the last message of the NEAR offsets before
    czxid, ctime_ms   of the topic's node in ZooKeeper, where zookeeper.connect is given (offsets/former.py): exact,
                      also where all messages are alike

What differs is OffsetOutOfRange under every policy: whether the new log is loaded, and from where, is the operator's to
say.  For 0.7 nothing is kept: positions are bytes there, no message lies before one, and topics have no such node.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import Any

from kafkawire.errors import BrokerError, LinkLost, WireError
from kafkawire.model import Broker, Message, MessageSet, TopicPartition
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.groupoffsets import topic_creations
from sparkpipeline.errors import NoLeader, OffsetOutOfRange
from sparkpipeline.load.loadplan import LogMark, Marks, in_order
from sparkpipeline.source.offsetbounds import EARLIEST, by_topic
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.refusals import MessageTooLarge
from zkconsumer.simple import SimpleConsumer

FIRST_BYTES = 16 * 1024  # of a fetch for one message; more where it does not fit
AT_ONCE = 100  # partitions in a fetch
NEAR = (
    3  # offsets before the last one, where that is no message: a transaction has one marker, and others may end there
)
LENGTH = Struct(">i")


def marks_of(
    brokers: Brokers, zk: Any | None, positions: Mapping[TopicPartition, int], cap_bytes: int
) -> dict[TopicPartition, LogMark]:
    """Return the marks of these offsets in the current logs.  Raises the exceptions of Brokers.leaders."""
    if not brokers.dialect.describes_itself:
        return {}
    last = {tp: at - 1 for tp, at in positions.items() if at > 0}
    crcs = {tp: (last[tp], crc) for tp, crc in message_crcs(brokers, last, cap_bytes).items() if crc is not None}
    for back in range(1, NEAR + 1) if brokers.dialect.record_batches else ():
        others = {tp: at - back for tp, at in last.items() if tp not in crcs and at >= back}
        found_there = message_crcs(brokers, others, cap_bytes)
        crcs |= {tp: (others[tp], crc) for tp, crc in found_there.items() if crc is not None}
    topics = {} if zk is None else topic_creations(zk, {tp.topic for tp in positions})
    found = {}
    for tp in positions:
        topic, (offset, crc) = topics.get(tp.topic), crcs.get(tp, (None, None))
        found[tp] = LogMark(
            offset,
            crc,
            None if topic is None else topic.czxid,
            None if topic is None else topic.ctime_ms,
        )
    return found


def check_logs(brokers: Brokers, zk: Any | None, marks: Marks, there: Collection[TopicPartition], cap: int) -> None:
    """Raise OffsetOutOfRange if a log does not match its mark; there: the partitions that exist."""
    kept = {tp: mark for tp, mark in marks.items() if tp in there}
    if not kept or not brokers.dialect.describes_itself:
        return
    topics = {} if zk is None else topic_creations(zk, {tp.topic for tp in kept})
    crcs = message_crcs(brokers, {tp: mark.offset for tp, mark in kept.items() if mark.offset is not None}, cap)
    other = {tp: why for tp in in_order(kept) if (why := differs(tp, kept[tp], topics.get(tp.topic), crcs.get(tp)))}
    if other:
        raise another_log(other)


def differs(tp: TopicPartition, mark: LogMark, topic: TopicCreation | None, crc: int | None) -> str:
    """Return why the log is another one, or "".  topic, crc: as they are now; None: not known.  Pure."""
    then = mark.topic
    if then is not None and topic is not None and then.czxid != topic.czxid:
        return f"topic {tp.topic}, which was created at {then} when it was loaded, was created again at {topic}"
    if mark.crc is not None and crc is not None and mark.crc != crc:
        return (
            f"the log holds another message at {mark.offset} than the one that was loaded: topic {tp.topic} was deleted"
            " and created again, or messages were lost with a leader"
        )
    return ""


def another_log(other: Mapping[TopicPartition, str]) -> OffsetOutOfRange:
    """Return the error for these partitions, with the remedy.  Pure."""
    tp, why = next(iter(other.items()))
    more = f" (and {len(other) - 1} more partitions)" if len(other) > 1 else ""
    starts = json.dumps(by_topic(dict.fromkeys(other, EARLIEST)))
    return OffsetOutOfRange(
        f"{why}{more}: the job's position means nothing in this log, and nothing is loaded; `sparkpipeline load init"
        f" JOB --replace --from-json '{starts}'` goes on at its beginning (or give other offsets)",
        topic=tp.topic, partition=tp.partition,
    )  # fmt: skip


# ---- messages ------------------------------------------------------------------------------------------------------


def message_crcs(
    brokers: Brokers, offsets: Mapping[TopicPartition, int], cap_bytes: int
) -> dict[TopicPartition, int | None]:
    """Return the CRC-32 of the message at each offset; None if the log does not have it, or it cannot be read.

    Raises NoLeader if no broker answers for a partition, and the exceptions of Brokers.leaders."""
    found: dict[TopicPartition, int | None] = {}
    left = dict(offsets)
    for attempt in brokers.attempts() if left else ():
        led: dict[Broker, list[TopicPartition]] = {}
        for tp, leader in brokers.leaders(left, refresh=attempt.number > 1).items():
            led.setdefault(leader, []).append(tp)
        for leader, tps in led.items():
            found |= _of_leader(brokers, leader, {tp: left[tp] for tp in tps}, cap_bytes)
        left = {tp: at for tp, at in left.items() if tp not in found}
        if not left:
            return found
    if left:
        tp = next(iter(left))
        raise NoLeader("its leader does not answer for the last message that was loaded", topic=tp.topic,
                       partition=tp.partition, offset=left[tp])  # fmt: skip
    return found


def _of_leader(
    brokers: Brokers, leader: Broker, offsets: Mapping[TopicPartition, int], cap_bytes: int
) -> dict[TopicPartition, int | None]:
    """Return the checksums from one broker; partitions that another one may lead are left out, and all if its link
    broke."""
    access = brokers.access
    found: dict[TopicPartition, int | None] = {}
    try:
        with SimpleConsumer(
            leader.host,
            leader.port,
            access.release,
            access.client_id,
            access.socket_timeout_ms,
            isolation_level="read_uncommitted",  # a message counts whatever the outcome of its transaction
            security=access.security,
        ) as consumer:
            tps = list(offsets)
            for first in range(0, len(tps), AT_ONCE):
                some = {tp: offsets[tp] for tp in tps[first : first + AT_ONCE]}
                found |= _fetched(consumer, some, FIRST_BYTES, cap_bytes)
    except LinkLost:
        pass
    return found


def _fetched(
    consumer: SimpleConsumer, offsets: Mapping[TopicPartition, int], size: int, cap_bytes: int
) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for tp, got in consumer.fetch_many(offsets, size, max_wait_ms=0).items():
        if isinstance(got, MessageSet):
            found[tp] = _crc_at(got, offsets[tp])
        elif isinstance(got, MessageTooLarge) and size < cap_bytes:
            larger = min(cap_bytes, max(4 * size, got.needed))
            found |= _fetched(consumer, {tp: offsets[tp]}, larger, cap_bytes)
        elif not (isinstance(got, BrokerError) and got.passes):
            found[tp] = None
    return found


def _crc_at(fetched: MessageSet, offset: int) -> int | None:
    try:
        first: Iterable[Message] = fetched.messages(check_crcs=False)
        return next((message_crc(one.key, one.value) for one in first if one.offset == offset), None)
    except WireError:
        return None  # damaged


def message_crc(key: bytes | None, value: bytes | None) -> int:
    """Return the CRC-32 of a message's key and value, with their lengths."""
    crc = 0
    for part in (key, value):
        crc = zlib.crc32(LENGTH.pack(-1 if part is None else len(part)), crc)
        crc = zlib.crc32(part or b"", crc)
    return crc
