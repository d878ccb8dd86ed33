"""From the streams of a source to the sender of the target: what a set becomes, and whom its tickets belong to.

    carry       one greenlet a stream: sets in, steps out
    Forwarder   one a source, with a waiting room for topics whose target is not ready yet, so that a topic which has to
                be created does not hold up its neighbours (what a set becomes is directing.py's)

What cannot be delivered fails its ticket with the reason, which parks its partition; the neighbours flow on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from groundwork.tasks import TaskGroup, sleep
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import MessageSet, Part, Ticket, TopicPartition
from mirrormaker.directing import Directing, Topic
from mirrormaker.directing import Settings as Settings
from mirrormaker.offsetmap.checkpoints import OwnershipPeriod
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.resume import Resumer, ResumeRefused, counted
from mirrormaker.offsetmap.tickets import part_tickets
from mirrormaker.partitioning import Numbering
from mirrormaker.routes import Step
from mirrormaker.target import Topics
from mirrormaker.topics import OUT_OF_REACH, SourceTopic, TopicMissing
from zkconsumer.errors import Closed

log = logging.getLogger(__name__)

T = TypeVar("T")
NOT_NUMBERED = Numbering()
RETRY_MIN_S, RETRY_MAX_S = 0.5, 10.0  # between looks at a target topic that is not ready


class Share(Protocol):
    """The consumer's side of a set: who owns its partition, and what is done of it."""

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket: ...
    @property
    def stint(self) -> object: ...
    @property
    def topic(self) -> int | None: ...
    @property
    def begins_new_log(self) -> bool: ...
    def holding(self) -> Callable[[], bool]: ...


class Sends(Protocol):
    def submit(self, part: Part, ticket: Ticket) -> None: ...


def carry(sets: Iterable[tuple[MessageSet, Share]], take: Callable[[MessageSet, Share], None]) -> None:
    """All sets of a stream, in order.  Ends when the stream does."""
    for fetched, share in sets:
        take(fetched, share)


class Forwarder:
    """Takes fetched sets of one source and submits their parts.

    speaks: the source's dialect; None: the target's.  numbering: of its partitions, where they have no numbers.
    waiting: topics that are not ready, with the sentence that says why.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        targets: Topics,
        source_topic: Callable[[str], SourceTopic],
        sender: Sends,
        tasks: TaskGroup,
        speaks: Dialect | None = None,
        numbering: Numbering = NOT_NUMBERED,
    ) -> None:
        self.name = name
        self.waiting: dict[str, str] = {}
        self.topics: dict[str, Topic] = {}
        self.keeper: MapRecorder | None = None  # of the offset map, where one is kept
        self.resumer: Resumer | None = None  # resume: target-end; needs a keeper
        self._settings = settings
        self._targets = targets
        self._directing = Directing(name, settings, targets, speaks or settings.dialect, numbering)
        self._source_topic = source_topic
        self._sender = sender
        self._tasks = tasks
        self._held: dict[str, deque[tuple[MessageSet, Share]]] = {}
        self._returning: set[str] = set()  # topics that the target had, and that are being created again
        self._ended_at: dict[TopicPartition, int] = {}  # where the last set of a partition ended: the next is aligned

    @property
    def dropped(self) -> int:
        """Messages that message.handler dropped."""
        return sum(self._directing.dropped.values())

    def tell_dropped(self) -> None:
        """Log how many messages message.handler dropped of each topic."""
        for topic, count in sorted(self._directing.dropped.items()):
            log.info(
                "source %s: topic %s: message.handler dropped %s messages since the start",
                self.name,
                topic,
                f"{count:,}",
            )

    def take(self, fetched: MessageSet, share: Share) -> None:
        """Forward a set now, or once its topic is ready; sets of a partition keep their order."""
        topic = self.topics.get(fetched.topic)
        if topic is not None and self._grew(fetched, topic):
            log.info(
                "source %s: topic %s has partition %s now; looking again", self.name, fetched.topic, fetched.partition
            )
            del self.topics[fetched.topic]
            topic = None
        if topic is not None:
            self._admit(fetched, share, topic)
            return
        held = self._held.get(fetched.topic)
        if held is not None:
            held.append((fetched, share))
            return
        self._held[fetched.topic] = deque([(fetched, share)])
        self._tasks.spawn(f"prepare-{self.name}-{fetched.topic}", self._prepare, fetched.topic)

    def forget(self, name: str) -> None:
        """Look again how many partitions the target has of a topic that keeps its partition numbers.

        Not where keys decide: with another count messages of a key would overtake each other.
        """
        topic = self.topics.get(name)
        if topic is not None and topic.choice.partitioning == "identity":
            del self.topics[name]

    def target_is_gone(self, name: str) -> bool:
        """The target does not have this topic (any more): have it created again, as at the start.

        False: nothing is sent there from here.
        """
        topic = self.topics.get(name) or self._directing.others.get(name)
        if topic is None:
            return name in self._held
        if name not in self._returning:
            self._returning.add(name)
            self._tasks.spawn(f"return-{self.name}-{name}", self._return, name, topic)
        return True

    def _grew(self, fetched: MessageSet, topic: Topic) -> bool:
        """Whether the source has more partitions than when the topic's route was chosen."""
        return isinstance(fetched.partition, int) and fetched.partition >= topic.source.partitions

    # ---- a topic's target -------------------------------------------------------------------------------------

    def _prepare(self, name: str) -> None:
        """Get a topic's target ready, however long it takes, and let go what was held back for it."""
        topic = self._until_ready(name)
        log.info("source %s: topic %s: %s", self.name, name, topic.choice)
        held = self._held[name]
        while held:
            self._admit(*held.popleft(), topic)  # may let others run, which then add to what is held
        del self._held[name]
        self.topics[name] = topic

    def _until_ready(self, name: str) -> Topic:
        return self._until_done(name, lambda: self._directing.prepared(name, self._source_topic(name)))

    def _return(self, name: str, topic: Topic) -> None:
        """A topic that brokers only do not know of yet is none that is gone: one of them may be behind the others."""
        if not self._until_done(name, lambda: self._targets.look()).partitions(name):
            self._waits(name, f"target topic {name} is gone; it is looked for, and created again where that may be")
            there = self._until_done(name, lambda: self._targets.prepare(name, topic.source))
            log.info("source %s: topic %s flows again: the target has %d partitions", self.name, name, len(there))
            if len(there) != len(topic.targets):
                self.topics.pop(name, None)  # its route is chosen again
                self._directing.others.pop(name, None)
        sleep(RETRY_MIN_S)  # until every broker was told of it
        self._returning.discard(name)

    def _until_done(self, name: str, attempt: Callable[[], T]) -> T:
        """What attempt() gives, tried until it works; meanwhile the topic waits."""
        pause_s = RETRY_MIN_S
        while True:
            try:
                found = attempt()
            except Closed:  # we are stopping; what is told of the topic stays why it waited
                sleep(RETRY_MAX_S)
            except (TopicMissing, *OUT_OF_REACH) as exc:
                self._waits(name, str(exc))
                sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                self.waiting.pop(name, None)
                return found

    def _waits(self, name: str, why: str) -> None:
        if self.waiting.get(name) != why:
            log.warning("source %s: topic %s waits: %s", self.name, name, why)
        self.waiting[name] = why

    # ---- a set ------------------------------------------------------------------------------------------------

    def _admit(self, fetched: MessageSet, share: Share, topic: Topic) -> None:
        """Forward a set, or, where it has to be known first what of it the target has (resume), once that is known."""
        if self.resumer is None:
            self._forward(topic, fetched, share)
            return
        try:
            if topic.choice.partitioning != "identity":
                raise ResumeRefused(
                    f"topic {fetched.topic}: resume is target-end, which needs partitions that keep their number, and "
                    f"its route is {topic.choice}; set resume: committed, or give the target as many partitions"
                )
            target = self._directing.same_partition(fetched.topic, fetched.partition, topic)
        except LocalError as reason:
            share.ticket(fetched.resume_at).failed(reason, fetched.start)
        else:
            self.resumer.take(fetched, share, target, partial(self._forward, topic))

    def _forward(self, topic: Topic, fetched: MessageSet, share: Share, skipped: int = 0) -> None:
        """skipped: so many of its first messages are in the target."""
        at = fetched.start
        following = self._follow(fetched, share, topic)
        try:
            aligned = self._ended_at.get(fetched.tp) == fetched.start
            for step in self._directing.steps(fetched, topic, aligned, skipped):
                self._submit(step, share, following)
                at = step.resume_at
        except (RemoteError, LocalError) as reason:
            # Nothing after it may ever count as done: the ticket that fails stands for all the rest of the set.
            share.ticket(fetched.resume_at).failed(reason, at)
        self._ended_at[fetched.tp] = fetched.resume_at

    def _follow(self, fetched: MessageSet, share: Share, topic: Topic) -> OwnershipPeriod | None:
        if self.keeper is None:
            return None
        keeps = topic.choice.partitioning in ("identity", "source") and self._settings.handler is None
        others = () if keeps else [TopicPartition(fetched.topic, n) for n in topic.targets]
        return self.keeper.follow(fetched, share.stint, share.holding(), keeps, others, share.topic)

    def _submit(self, step: Step, share: Share, following: OwnershipPeriod | None) -> None:
        if not step.parts:
            share.ticket(step.resume_at).done()
            return
        parts = step.parts
        if self.resumer is not None:  # it needs to know just where each message lies
            parts = tuple(counted(part, self._settings.dialect) for part in parts)
        ticket = share.ticket(step.resume_at, len(parts))
        tickets: Sequence[Ticket] = [ticket] * len(parts)
        if following is not None:
            doubtful = partial(self.resumer.doubtful, following.source) if self.resumer is not None else None
            tickets = part_tickets(parts, ticket, following, step.resume_at, doubtful)
        for part, each in zip(parts, tickets, strict=True):
            self._sender.submit(part, each)
