"""Bad messages: what is done about a message that cannot be copied, by its kind and the policies of its topic.  Pure.

    oversize      larger than the target takes, or than a fetch from the source may grow
    corrupt       damaged: in the source's log, or found by the target
    undecodable   whole, and yet not readable: an unknown format, compression that does not open, an encoder that raises
    handler       message.handler raised, or gave back something that is no message
    refused       whole, and refused by the target for what it is: its timestamp, no key for a compacted topic
    unclear       refused by the target, which does not say why; no option sets the policy, an operator may release it

    park          nothing of the partition is copied from the message on; it is tried again (parked.retry.ms)
    dead-letter   the message goes to mirror.dead.letter.topic, and the partition goes on behind it
    skip          the partition goes on behind it; counted, logged, shown
    fail          the mirror drains, commits and ends with exit code 65

What the target refuses often names more than one message, and a damaged byte may have been damaged on the way.  So
before anything but park is done the message is isolated (mirrormaker.isolation), and data that seems damaged is fetched
again REFETCHES times.  What the target refuses is isolated whatever the policy: the partition parks at the message.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from groundwork.sentences import iso
from kafkawire.errors import BrokerError, CorruptMessage, RemoteError, UnknownMagic
from kafkawire.model import TopicPartition
from mirrormaker.encoding import MessageEncoderFailed
from mirrormaker.handler import HandlerTopicMissing
from producer.conversion import MessageHandlerFailed
from producer.errors import RecordRefused, TooLarge, Undeliverable, UnknownOutcome, Waiting
from zkconsumer.errors import DamagedMessage, EntryTooLarge

Kind = Literal["oversize", "corrupt", "undecodable", "handler", "refused", "unclear"]
Policy = Literal["park", "dead-letter", "skip", "fail"]
POLICIES: tuple[Policy, ...] = ("park", "dead-letter", "skip", "fail")
RELEASES: tuple[Policy, ...] = ("dead-letter", "skip")  # what an operator may do about a parked message, once
REFETCHES = 3  # of data that seems damaged
REFETCH_S = 0.25  # backoff before the first; then twice as long each
ISOLATIONS = 4  # tries to find the one message that is bad, before the partition stays parked
REFUSED = frozenset({2, 32, 87})  # CorruptMessage (of bytes that are whole), InvalidTimestamp, InvalidRecord
UNCLEAR = -1  # also what 0.8 answers for a wrapper that it cannot open
SEEMS_DAMAGED: frozenset[Kind] = frozenset({"corrupt", "undecodable"})
REFUSED_KIND: frozenset[Kind] = frozenset({"refused"})
UNCLEAR_KIND: frozenset[Kind] = frozenset({"unclear"})
NO_KIND: frozenset[Kind] = frozenset()
OPTION = {
    "oversize": "mirror.oversize.policy",
    "corrupt": "mirror.corrupt.policy",
    "undecodable": "mirror.undecodable.policy",
    "handler": "mirror.handler.error.policy",
    "refused": "mirror.refused.policy",
}
HELPS = {
    "oversize": "raise message.max.bytes of the target's brokers or max.message.bytes of its topic",
    "corrupt": "look at the disk of the broker, or restore the partition from a replica that is whole",
    "undecodable": "ask who writes to the topic",
    "handler": "mend the handler",
    "refused": "give the target topic settings that take it, or mend the program that writes it",
}


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a topic.  unclear: no option sets it."""

    oversize: Policy = "park"
    corrupt: Policy = "park"
    undecodable: Policy = "park"
    handler: Policy = "park"
    refused: Policy = "park"
    unclear: Policy = "park"

    def of(self, kind: Kind) -> Policy:
        found: Policy = getattr(self, kind)
        return found

    def any(self, policy: Policy) -> bool:
        """Whether any kind has this policy."""
        return policy in (self.oversize, self.corrupt, self.undecodable, self.handler, self.refused, self.unclear)

    @classmethod
    def all(cls, policy: Policy) -> Policies:
        """One policy for every kind."""
        return cls(policy, policy, policy, policy, policy, policy)


PARK_ALL = Policies()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadMessage:
    """One message that cannot be copied, or one entry that cannot be opened.

    resume_at: where the source goes on behind it.  offsets: how many messages it may be; None: not known (0.7).
    index: which of the messages that share its offset (0.7).  entry: its bytes as they were fetched, or as many of them
    as are known.  message: decoded, where it can be: (key, value, timestamp in ms, block of its headers).  nbytes: its
    size in the log.
    """

    tp: TopicPartition
    offset: int
    resume_at: int
    kind: Kind
    reason: Exception
    entry: bytes
    nbytes: int
    offsets: int | None = 1
    index: int = 0
    message: tuple[bytes | None, bytes | None, int | None, bytes | None] | None = None

    @property
    def shares_offset(self) -> bool:
        """Others behind it have the same offset, so the source cannot go on behind it alone."""
        return self.resume_at <= self.offset

    @property
    def where(self) -> str:
        return f"{self.tp} at {self.offset}" + (f" (message {self.index} of its wrapper)" if self.index else "")

    @property
    def what(self) -> str:
        """What is left out with it."""
        if self.offsets is None:
            return f"an entry of {self.nbytes} bytes, with an unknown number of messages"
        return "1 message" if self.offsets == 1 else f"an entry of {self.offsets} offsets"

    @property
    def named(self) -> str:
        """The record that goes with it, by what may be shown: never its bytes."""
        if self.message is None:
            return f"{self.what} at {self.offset}, {self.nbytes} bytes"
        key, value, stamp, _ = self.message
        size = "no value" if value is None else f"a value of {len(value)} bytes"
        time = "" if stamp is None or stamp < 0 else f", timestamp {iso(stamp)}"
        where = self.where.removeprefix(f"{self.tp} at ")
        return f"the message at {where} with {'no key' if key is None else f'a key of {len(key)} bytes'}, {size}{time}"


class Action(Enum):
    """What is done next about a parked partition."""

    PARK = "park"
    ISOLATE = "isolate"  # fetch again, with its messages one by one
    REFETCH = "refetch"  # the same after a backoff: it may have been damaged on the way
    DEAD_LETTER = "dead-letter"
    SKIP = "skip"
    FAIL = "fail"


def suspected(reason: Exception) -> frozenset[Kind]:
    """The kinds of bad message that may be behind an error; empty: it is about no single message."""
    match reason:
        case TooLarge() | EntryTooLarge():
            return frozenset({"oversize"})
        case HandlerTopicMissing():
            return NO_KIND
        case MessageEncoderFailed():
            return frozenset({"undecodable"})
        case MessageHandlerFailed():
            return frozenset({"handler"})
        case RecordRefused():
            return REFUSED_KIND
        case BrokerError() if reason.code in REFUSED:
            return SEEMS_DAMAGED | REFUSED_KIND
        case BrokerError() if reason.code == UNCLEAR:
            return SEEMS_DAMAGED | UNCLEAR_KIND
        case BrokerError() | UnknownOutcome() | Waiting():
            return NO_KIND
        case RemoteError():
            return SEEMS_DAMAGED
        case Undeliverable():
            return SEEMS_DAMAGED | UNCLEAR_KIND
        case _:
            return NO_KIND


def kind_of(reason: Exception) -> Kind | None:
    """The kind of a message that is known to be the only one an error is about; None: it is about no message."""
    match reason:
        case BrokerError() if reason.code in REFUSED:
            return "refused"  # its bytes are whole: what is damaged fails before it is sent
        case DamagedMessage():
            return "undecodable" if isinstance(reason.__cause__, UnknownMagic) else "corrupt"
        case UnknownMagic():
            return "undecodable"
        case CorruptMessage():
            inner = reason.__cause__
            opened = not isinstance(inner, RemoteError) or (
                isinstance(inner, CorruptMessage) and not isinstance(inner, UnknownMagic)
            )
            return "corrupt" if opened else "undecodable"
        case RemoteError():
            return "undecodable"
        case _:
            found = suspected(reason)
            return "unclear" if "unclear" in found else next(iter(found), None)


def decide(policies: Policies, reason: Exception, bad: BadMessage | None, refetched: int, isolations: int) -> Action:
    """What is done about a partition that is parked for this reason.

    bad: the message at fault; None: not known yet.  refetched: how often it was fetched again and found bad again.
    isolations: how often it was fetched again to find out which message is at fault.
    """
    if bad is None:
        return Action.ISOLATE if isolates(policies, reason) and isolations < ISOLATIONS else Action.PARK
    policy = policies.of(bad.kind)
    if policy == "park":
        return Action.PARK
    if bad.kind in SEEMS_DAMAGED and refetched < REFETCHES:
        return Action.REFETCH
    return Action(policy)


def isolates(policies: Policies, reason: Exception) -> bool:
    """True if the one message behind an error is looked for, because a policy leaves it out, or because the target
    refused more than it: then the partition would park before it, with neighbours that could be copied."""
    kinds = suspected(reason)
    by_target = isinstance(reason, BrokerError | Undeliverable)
    return bool(kinds) and (by_target or any(policies.of(kind) != "park" for kind in kinds))


def options_of(kinds: Collection[Kind]) -> str:
    """Return the options that say what becomes of a message of these kinds: `mirror.refused.policy`."""
    return ", ".join(OPTION[kind] for kind in OPTION if kind in kinds)


def backoff_s(refetched: int) -> float:
    """Seconds before data that seems damaged is fetched again."""
    return float(REFETCH_S * 2**refetched)


def of_source(tp: TopicPartition, reason: Exception, counts_messages: bool) -> BadMessage | None:
    """The entry that the consumer itself could not read and has measured; None: the error is no such."""
    if not isinstance(reason, EntryTooLarge | DamagedMessage) or reason.resume_at is None or reason.offset is None:
        return None
    kind = kind_of(reason)
    assert kind is not None
    nbytes = reason.needed if isinstance(reason, EntryTooLarge) else len(reason.raw)
    return BadMessage(
        tp=tp,
        offset=reason.offset,
        resume_at=reason.resume_at,
        kind=kind,
        reason=reason,
        entry=reason.raw,
        nbytes=nbytes,
        offsets=reason.resume_at - reason.offset if counts_messages else None,
    )


def failure(bad: BadMessage) -> str:
    """The last sentence of a mirror whose policy is fail."""
    sentence = str(bad.reason)
    where = "" if sentence.startswith(f"{bad.tp} at {bad.offset}") else f"{bad.where}: "
    helps = HELPS.get(bad.kind, "")
    return (
        f"{where}{sentence}; {OPTION.get(bad.kind, 'the policy')} is fail: {helps}, or choose park, dead-letter or skip"
    )
