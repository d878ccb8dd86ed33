"""Bad messages: decides how to handle a message that cannot be copied, by its kind and its topic's policies.  Pure.

    oversize      larger than the target accepts, or than a fetch from the source may grow
    corrupt       damaged: in the source's log, or found by the target
    undecodable   intact but not readable: an unknown format, compression that does not open, an encoder that raises
    handler       message.handler raised, or returned something that is not a message
    refused       intact, but the target refuses its content: its timestamp, or no key for a compacted topic
    unclear       the target refuses it and does not say why; no option sets the policy, an operator may release it

    park          nothing of the partition is copied from the message onwards; it is retried (parked.retry.ms)
    dead-letter   the message goes to mirror.dead.letter.topic, and the partition resumes behind it
    skip          the partition resumes behind the message; the message is counted, logged and shown
    fail          the mirror drains, commits and ends with exit code 65

A refusal by the target often covers more than one message, and a damaged byte may have been damaged in transit.  So
before any action except park, the message is isolated (mirrormaker.isolation), and data that seems damaged is fetched
again REFETCHES times.  A message that the target refuses is isolated whatever the policy: the partition parks at it.
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
RELEASES: tuple[Policy, ...] = ("dead-letter", "skip")  # policies that an operator may apply once to a parked message
REFETCHES = 3  # attempts to fetch data again that seems damaged
REFETCH_S = 0.25  # backoff before the first refetch; doubled each time
ISOLATIONS = 4  # tries to find the one message that is bad, before the partition stays parked
REFUSED = frozenset({2, 32, 87})  # CorruptMessage (of intact bytes), InvalidTimestamp, InvalidRecord
UNCLEAR = -1  # brokers of 0.8 also answer this for a wrapper that they cannot open
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
    """Policies of a topic, one for each kind.  `unclear` is not set by any option."""

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
        """True if any kind has this policy."""
        return policy in (self.oversize, self.corrupt, self.undecodable, self.handler, self.refused, self.unclear)

    @classmethod
    def all(cls, policy: Policy) -> Policies:
        """Return policies with this one policy for every kind."""
        return cls(policy, policy, policy, policy, policy, policy)


PARK_ALL = Policies()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadMessage:
    """One message that cannot be copied, or one entry that cannot be opened.

    resume_at: the offset at which the source resumes behind it.  offsets: how many messages it may hold; None if
    unknown (0.7). index: its position among the messages that share its offset (0.7).  entry: its bytes as fetched, as
    far as they are known.  message: the decoded message, if it could be decoded: (key, value, timestamp in ms, block of
    its headers). nbytes: its size in the log.
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
        """True if messages behind it have the same offset, so the source cannot resume behind this message alone."""
        return self.resume_at <= self.offset

    @property
    def where(self) -> str:
        return f"{self.tp} at {self.offset}" + (f" (message {self.index} of its wrapper)" if self.index else "")

    @property
    def what(self) -> str:
        """Return a description of what is left out together with it."""
        if self.offsets is None:
            return f"an entry of {self.nbytes} bytes, with an unknown number of messages"
        return "1 message" if self.offsets == 1 else f"an entry of {self.offsets} offsets"

    @property
    def named(self) -> str:
        """Return a description of the record without its bytes: messages may be confidential."""
        if self.message is None:
            return f"{self.what} at {self.offset}, {self.nbytes} bytes"
        key, value, stamp, _ = self.message
        size = "no value" if value is None else f"a value of {len(value)} bytes"
        time = "" if stamp is None or stamp < 0 else f", timestamp {iso(stamp)}"
        where = self.where.removeprefix(f"{self.tp} at ")
        return f"the message at {where} with {'no key' if key is None else f'a key of {len(key)} bytes'}, {size}{time}"


class Action(Enum):
    """Next action for a parked partition."""

    PARK = "park"
    ISOLATE = "isolate"  # fetch again, and copy the messages one by one
    REFETCH = "refetch"  # fetch again after a backoff: the data may have been damaged in transit
    DEAD_LETTER = "dead-letter"
    SKIP = "skip"
    FAIL = "fail"


def suspected(reason: Exception) -> frozenset[Kind]:
    """Return the kinds of bad message that may have caused an error; empty if the error is not about a single
    message."""
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
    """Return the kind of the only message that an error can be about, or None if the error is not about a message."""
    match reason:
        case BrokerError() if reason.code in REFUSED:
            return "refused"  # its bytes are intact: damaged bytes fail before they are sent
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
    """Decide the next action for a partition that is parked for this reason.

    bad: the message at fault, or None while it is not known.  refetched: how often it was fetched again and was still
    bad. isolations: how often it was fetched again to find the message at fault.
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
    """True if the message behind an error must be found: a policy leaves it out, or the target refused a whole batch.
    Otherwise the partition would park with good messages behind the bad one in the same batch."""
    kinds = suspected(reason)
    by_target = isinstance(reason, BrokerError | Undeliverable)
    return bool(kinds) and (by_target or any(policies.of(kind) != "park" for kind in kinds))


def options_of(kinds: Collection[Kind]) -> str:
    """Return the options that set the policies of these kinds, such as `mirror.refused.policy`."""
    return ", ".join(OPTION[kind] for kind in OPTION if kind in kinds)


def backoff_s(refetched: int) -> float:
    """Return the seconds to wait before data that seems damaged is fetched again."""
    return float(REFETCH_S * 2**refetched)


def of_source(tp: TopicPartition, reason: Exception, counts_messages: bool) -> BadMessage | None:
    """Return the entry that the consumer itself could not read and has measured, or None for any other error."""
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
    """Return the last sentence that a mirror logs when the policy is fail."""
    sentence = str(bad.reason)
    where = "" if sentence.startswith(f"{bad.tp} at {bad.offset}") else f"{bad.where}: "
    helps = HELPS.get(bad.kind, "")
    return (
        f"{where}{sentence}; {OPTION.get(bad.kind, 'the policy')} is fail: {helps}, or choose park, dead-letter or skip"
    )
