"""Flow from one source into one target: sets of messages in, parts for target partitions out.

    carry       one task per stream of the source: passes its sets to the flow
    Flow        prepares the target of each topic, turns sets into steps by the topic's route, submits their parts
    Delivery    what an offset map adds: tickets that know where a part was stored, and a gate before the route
    ParkedRetries   fetches parked partitions again every parked.retry.ms

A topic whose target is not ready waits in a task of its own, so that creating a topic does not delay other topics.  A
topic that must not be mirrored (it would feed itself, or go to a topic that only brokers write) is refused: its
partitions are parked, and other topics continue.  A message that cannot be delivered fails its ticket with the reason,
which parks its partition; other partitions continue.  The policies of the topic decide what happens to it then: see
mirrormaker.quarantine.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from groundwork.tasks import TaskGroup, in_turns, now, sleep
from kafkawire import kernels
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import MessageSet, Part, PartitionId, Ticket, TopicPartition
from mirrormaker.handler import HandlerTopicMissing, MessageHandler
from mirrormaker.intake import Intake
from mirrormaker.options import MirrorOptions
from mirrormaker.quarantine import Case, Quarantine
from mirrormaker.report import COPIED, ENCODED
from mirrormaker.routes import RouteRules, TopicRoute, as_configured
from mirrormaker.selection import Selection, merged_sentence
from mirrormaker.sethandler import Outputs, SetHandler
from mirrormaker.source import Share, Source
from mirrormaker.target import Target
from mirrormaker.throttle import FlowThrottle
from mirrormaker.topics import OUT_OF_REACH, TopicMissing
from producer.conversion import Lists, MessageHandlerFailed, Place, Placed, Rows, Step, narrowed
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.errors import Closed

log = logging.getLogger(__name__)

T = TypeVar("T")
RETRY_MIN_S, RETRY_MAX_S = 0.5, 10.0  # backoff for a target topic that is not ready
PREPARED = "its topic in the target is looked up or created, or a partition of it has no leader yet"
HANDLED_RETRY_S = 10.0  # backoff for a topic that message.handler sends to, while the target is out of reach
FORMER_S, FORMER_POLL_S = 10.0, 0.02  # longest wait for what is in flight before a topic's route changes
KERNELS_S, KERNELS_POLL_S = 3.0, 0.02  # loading takes half a second; compiling, once per machine, may take longer
PARKED_POLL_S = 0.5
PARKED_POLLS = 30  # minimum number of polls within parked.retry.ms


# ---- what a flow takes ---------------------------------------------------------------------------------------------

StepTickets = Callable[[Step], Sequence[tuple[Part, Ticket]]]
Forward = Callable[[TopicRoute, MessageSet, Share, int], object]  # int: how many of its first messages to skip


class Tickets(Protocol):
    """Factory of tickets for the parts of a fetched set."""

    def of_set(self, fetched: MessageSet, share: Share, topic: TopicRoute) -> StepTickets: ...


class ShareTickets:
    """Tickets of a flow without an offset map: each part of a step carries the ticket of the set's share."""

    def of_set(self, fetched: MessageSet, share: Share, topic: TopicRoute) -> StepTickets:
        return partial(self._of_step, share)

    @staticmethod
    def _of_step(share: Share, step: Step) -> Sequence[tuple[Part, Ticket]]:
        ticket = share.ticket(step.resume_at, len(step.parts))
        return [(part, ticket) for part in step.parts]


def admit_at_once(fetched: MessageSet, share: Share, topic: TopicRoute, forward: Forward) -> None:
    """Let every set continue along its route, without a gate."""
    forward(topic, fetched, share, 0)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Hooks that an offset map adds to a flow; this default adds nothing.

    tickets    decorates the tickets of parts, so that they also learn where a part was stored
    admit      lets a set continue along its route, at once or when it is known what the target has of it (resume)
    waiting    partitions that admit holds back, each with a sentence that gives the reason
    before_commit   called with the offsets that the source is about to commit
    renamed    called with the target names of source topics, at the start and when they may have changed
    alone      True if no two source topics may be sent to one target topic
    pending    True if something sent to a target topic is not committed yet
    """

    tickets: Tickets = field(default_factory=ShareTickets)
    admit: Callable[[MessageSet, Share, TopicRoute, Forward], object] = admit_at_once
    waiting: Mapping[str, str] = field(default_factory=dict)
    before_commit: Callable[[Mapping[TopicPartition, int]], object] = lambda offsets: None
    renamed: Callable[[Callable[[str], str]], object] = lambda target: None
    alone: bool = False
    pending: Callable[[str], bool] = lambda topic: False


PLAIN_DELIVERY = Delivery()


def carry(sets: Iterable[tuple[MessageSet, Share]], take: Callable[[MessageSet, Share], None]) -> None:
    """Pass on all sets of a stream, in order.  Ends when the stream does."""
    for fetched, share in sets:
        take(fetched, share)


class TopicRefused(LocalError):
    """Raised when a topic must not be mirrored; names the topic and what helps."""


# ---- the flow ---------------------------------------------------------------------------------------------------


class Flow:
    """Flow from one source into one target.

    topics: routes of the topics that are ready, by name.  intake: counts what came in; throttle: limits how much may
    come in. rules: what the options say about routes.  handler: message.handler or message.set.handler, if configured.
    selection: the topics to mirror and their target names; None mirrors every topic under its own name.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        rules: RouteRules,
        tasks: TaskGroup,
        *,
        handler: MessageHandler | SetHandler | None = None,
        delivery: Delivery = PLAIN_DELIVERY,
        selection: Selection | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.name = source.name
        self.sender = target.sender_of(source.name)
        self.selection = selection or Selection(source=source.name, whitelist=".*", exclude_internal=False)
        self.topics: dict[str, TopicRoute] = {}
        self.intake = Intake()
        self.throttle = FlowThrottle(lambda limits: source.throttle(limits))
        self._rules = rules
        self._tasks = tasks
        self._handler = handler
        self._delivery = delivery
        self.quarantine = quarantine or Quarantine(source, tasks)
        self._other_rules = self._rules_of_others(rules)
        self._others: dict[str, TopicRoute] = {}  # topics that only a handler sends to
        self._waiting: dict[str, str] = {}
        self._held: dict[str, deque[tuple[MessageSet, Share]]] = {}  # sets of topics that are not ready
        self._returning: set[str] = set()  # topics that the target had, and that are being created again
        self._dropped_before: dict[tuple[str, str], int] = {}  # messages dropped by former handlers
        self.handled: dict[tuple[str, str], int] = {}  # messages of message.set.handler, by topic and COPIED or ENCODED
        self._changes = 0  # changes of the rules since the start
        self._former: dict[str, str] = {}  # topics whose route has changed, with their former target topic
        self._ended_at: dict[TopicPartition, int] = {}  # where the last set of a partition ended: the next is aligned

    def start(self, mirror: MirrorOptions) -> None:
        """Join the source's group and carry its streams.

        Raises Unreachable (try again), ChrootMissing and ConsumerError.
        """
        self._delivery.renamed(self.selection.target)
        streams = self.source.join(mirror.topics, mirror.num_streams, self._delivery.before_commit)
        for stream in streams:
            self._tasks.spawn(f"carry-{self.name}-{stream.name}", carry, stream.sets(), self.take)
        self._tasks.spawn(f"quarantine-{self.name}", self.quarantine.run)

    def shutdown(self) -> None:
        """Stop fetching, wait until what is in flight is acknowledged, commit, release, and leave the group."""
        self.source.shutdown()
        self.quarantine.left_out.log_counted()
        if self._handler is not None:
            self._handler.log_dropped()

    @property
    def waiting(self) -> dict[str, str]:
        """Return topics and partitions of the source that make no progress, each with a sentence that gives the
        reason."""
        deleted = {topic: why for topic, why in self.source.deleted.items() if self.selection.selects(topic)}
        return {**deleted, **self._waiting, **self._delivery.waiting, **self.quarantine.waiting}

    @property
    def has_handler(self) -> bool:
        return self._handler is not None

    @property
    def handler_option(self) -> str:
        return MessageHandler.option if self._handler is None else self._handler.option

    def change(self, rules: RouteRules, selection: Selection, handler: MessageHandler | SetHandler | None) -> None:
        """Apply other rules, beginning with the next set of each topic.

        A topic whose route changes waits until what is in flight to its target topic is acknowledged, so that nothing
        is overtaken; other topics continue.  Messages that the former handler dropped stay counted.
        """
        self._dropped_before = self._dropped()
        rules.dropped.update(self._rules.dropped)
        self._rules, self.selection, self._handler = rules, selection, handler
        self._changes += 1
        self._other_rules = self._rules_of_others(rules)
        self._others.clear()
        for name, topic in list(self.topics.items()):
            if self._moves(name, topic):
                self._former[name] = topic.target
                del self.topics[name]
        for name in [name for name in self._waiting if not selection.selects(name)]:
            del self._waiting[name]
        self._delivery.renamed(selection.target)

    def _moves(self, name: str, topic: TopicRoute) -> bool:
        """True if a topic's route to the target changes."""
        if self.source.in_target or (len(topic.partitions) < topic.source.partitions and self._rules.grows(name)):
            return True  # it may be refused now, or grow
        target = self.selection.target(name)
        if self.selection.why_not_written(target):
            return True
        now_chosen = self._rules.choose(name, topic.source.partitions, len(topic.partitions), target)
        same = topic.target == target and topic.route == now_chosen
        before, after = topic.partitioner.chosen, self._rules.partitioner(name)
        return not same or (before.name, before.unkeyed) != (after.name, after.unkeyed)

    @staticmethod
    def _rules_of_others(rules: RouteRules) -> RouteRules:
        """Return the rules for topics that only a handler sends to."""
        return replace(rules, handler="", set_handler="", codec="", of_topic=as_configured)

    @property
    def dropped_fields(self) -> dict[tuple[str, str], int]:
        """Return by topic and field how many messages lost a field for which the target's message format has no
        room."""
        return dict(self._rules.dropped)

    @property
    def left_out(self) -> dict[tuple[str, str], int]:
        """Return by topic and reason how many messages a handler or a policy left out of the target."""
        return self.quarantine.left_out.counts | self._dropped()

    def _dropped(self) -> dict[tuple[str, str], int]:
        """Return by topic and option how many messages this handler and its predecessors dropped."""
        found = dict(self._dropped_before)
        for topic, count in self._handler.dropped.items() if self._handler is not None else ():
            key = topic, self.handler_option
            found[key] = found.get(key, 0) + count
        return found

    # sets ------------------------------------------------------------------------------------------------------------

    def take(self, fetched: MessageSet, share: Share) -> None:
        """Forward a set now, or once its topic is ready; the sets of a partition keep their order."""
        self.intake.count(fetched)
        if self.throttle:
            self.throttle.count(fetched, now())
        topic = self.topics.get(fetched.topic)
        if topic is not None and self._grew(fetched, topic):
            log.info(
                "source %s: topic %s has partition %s now; its route is chosen again",
                self.name,
                fetched.topic,
                fetched.partition,
            )
            del self.topics[fetched.topic]
            topic = None
        if topic is not None:
            self._delivery.admit(fetched, share, topic, self._forward)
            return
        held = self._held.get(fetched.topic)
        if held is not None:
            held.append((fetched, share))
            return
        self._held[fetched.topic] = deque([(fetched, share)])
        self._tasks.spawn(f"prepare-{self.name}-{fetched.topic}", self._prepare, fetched.topic)

    def _grew(self, fetched: MessageSet, topic: TopicRoute) -> bool:
        """True if the source has more partitions than when the topic's route was chosen."""
        return isinstance(fetched.partition, int) and fetched.partition >= topic.source.partitions

    def _forward(self, topic: TopicRoute, fetched: MessageSet, share: Share, skipped: int = 0) -> None:
        """Submit the parts of a set.  `skipped`: this many of its first messages are in the target already."""
        case = self.quarantine.case(fetched)
        if case is not None and not skipped:
            self._forward_isolated(topic, fetched, share, case)
            return
        at = fetched.start
        tickets = self._delivery.tickets.of_set(fetched, share, topic)
        decodes = topic.route.kind == "re-encode" or skipped
        place = self._handling(topic, fetched.tp)
        submit = self.sender.submit
        try:
            aligned = self._ended_at.get(fetched.tp) == fetched.start
            for step in in_turns(topic.steps(fetched, aligned, skipped, place=place)):  # a wrapper may be opened here
                if step.parts:
                    for part, ticket in tickets(step):
                        submit(part, ticket)
                else:
                    share.ticket(step.resume_at).done()
                at = step.resume_at
                if decodes:
                    sleep(0)  # decoding takes long: let heartbeats and fetches run in between
        except (RemoteError, LocalError) as reason:
            # Nothing after it may ever count as done: the failed ticket stands for all the rest of the set.
            share.ticket(fetched.resume_at).failed(reason, at)
        self._ended_at[fetched.tp] = fetched.resume_at

    def _forward_isolated(self, topic: TopicRoute, fetched: MessageSet, share: Share, case: Case) -> None:
        """Submit a set with its suspected messages one by one; each has a ticket that identifies it."""
        watched = self.quarantine.watched(case, share)
        tickets = self._delivery.tickets.of_set(fetched, watched, topic)
        place = self._handling(topic, fetched.tp)
        submit = self.sender.submit
        at = fetched.start
        try:
            for one in self.quarantine.isolated(case, fetched):
                watched.one, at = one, one.offset
                if one.damage is not None:
                    raise one.damage
                for step in topic.steps(one.message_set, True, place=place):
                    if one.inner:
                        step = inner_step(step, one.resume_at)
                    if step.parts:
                        for part, ticket in tickets(step):
                            submit(part, ticket)
                    else:
                        watched.ticket(step.resume_at).done()
                    at = step.resume_at
                watched.one = None  # later failures are not about this message
                sleep(0)
        except (RemoteError, LocalError) as reason:
            if watched.one is not None and watched.one.single:
                self.quarantine.note(case, watched.one, reason)
            share.ticket(fetched.resume_at).failed(reason, at)
        else:
            if at < fetched.resume_at:
                share.ticket(fetched.resume_at).done()
        self._ended_at[fetched.tp] = fetched.resume_at

    def _handling(self, topic: TopicRoute, source: TopicPartition) -> Place | None:
        """Return the function that applies the handler to messages of a source partition, or None without a handler."""
        if self._handler is None:
            return None
        if isinstance(self._handler, SetHandler):
            return narrowed(partial(self._placed, self._handler, topic, source))
        return partial(self._handled, self._handler, topic, source)

    def _handled(
        self, handler: MessageHandler, topic: TopicRoute, source: TopicPartition, rows: Rows
    ) -> Iterator[Placed]:
        """Yield what message.handler wants sent for messages of a source partition.  Other tasks run in between:
        neither many messages nor a slow handler delay a heartbeat or another source."""
        place, speaks = narrowed(partial(self._sent_on, topic, source)), self._rules.source
        for made in handler.outputs(source, rows, speaks=speaks, clock=now, instead=self.quarantine.handler_failed):
            if made is not None:
                yield from place(made)
            sleep(0)

    def _placed(self, handler: SetHandler, topic: TopicRoute, source: TopicPartition, rows: Rows) -> Placed:
        """Return what message.set.handler wants sent for messages of a source partition."""
        handled = handler.handled(source, rows)
        if handled.kept is not None and rows.stretches and not self._rules.encoders:
            placed = Placed({}, rows.resume_at, topic.shares(source, rows.stretches, handled.kept))
            how, count = COPIED, handled.kept.count(True)
        else:
            try:
                outputs = handled.outputs(rows)
            except LocalError as failed:
                where = f"{source} at {rows.offsets[0]} to {rows.offsets[-1]}: {self.handler_option}"
                raise MessageHandlerFailed(f"{where} gave back headers that cannot be sent: {failed}") from failed
            placed = self._sent_on(topic, source, outputs)
            how, count = ENCODED, len(outputs.offsets)
        if count:
            self.handled[source.topic, how] = self.handled.get((source.topic, how), 0) + count
        handler.count_dropped(source, rows, handled)
        return placed

    def _sent_on(self, topic: TopicRoute, source: TopicPartition, outputs: Outputs) -> Placed:
        """Return the encoded outputs of a handler, by target partition."""
        into: dict[TopicPartition, Lists] = {}
        for name, rows, partitions in outputs.by_topic(source.topic):
            try:
                there = topic if name is None else self._other(name, source.topic, topic)
            except MessageHandlerFailed as failed:
                failed.offset = rows.offsets[0]
                raise
            there.place(source, rows, into, partitions, handler=self.handler_option)
        outputs.add_letters(into)
        return Placed(into, outputs.rows.resume_at)

    # topics of the target --------------------------------------------------------------------------------------------

    def _prepare(self, name: str) -> None:
        """Prepare a topic's target, however long it takes, and forward the sets that were held back for it."""
        try:
            self._drain_former(name)
            while True:
                chosen_by = self._changes
                topic = self._until_done(name, partial(self._prepared, name))
                if chosen_by == self._changes:  # otherwise the rules changed while it waited
                    break
            self._load_kernels(topic)
        except TopicRefused as why:
            self._refuse(name, why)
            return
        named = "" if topic.target == name else f", into {topic.target}"
        log.info("source %s: topic %s: %s%s", self.name, name, topic.route, named, extra=self._event("route", name))
        held = self._held[name]
        while held:
            self._delivery.admit(*held.popleft(), topic, self._forward)  # other tasks may run and add to `held`
        del self._held[name]
        if chosen_by == self._changes or not self._moves(name, topic):
            self.topics[name] = topic
        else:
            self._former[name] = topic.target

    @staticmethod
    def _load_kernels(topic: TopicRoute) -> None:
        """Load the kernels for a topic whose messages must be decoded; its sets wait for them.

        Loading them while the pure form decodes takes several times as long, and decoding costs ten times the processor
        time meanwhile.  Raises TopicRefused if the environment demands kernels that are not installed.
        """
        if topic.route.kind == "pass-through":
            return
        until = now() + KERNELS_S
        try:
            kernels.compiled()
        except LocalError as why:
            raise TopicRefused(str(why)) from why
        while kernels.loading() and now() < until:
            sleep(KERNELS_POLL_S)

    def _drain_former(self, name: str) -> None:
        """Wait for what is in flight to the former target topic: if keys decide the partition, it must not be
        overtaken.

        The wait is bounded, because other topics may be sent there, too.
        """
        former, until = self._former.pop(name, None), now() + FORMER_S
        while former is not None and self._pending(former) and now() < until:
            sleep(FORMER_POLL_S)

    def _pending(self, topic: str) -> bool:
        return self.sender.pending(topic) or self._delivery.pending(topic)

    def _prepared(self, name: str) -> TopicRoute:
        """Return a topic's route.  Raises TopicRefused, and what Topics.prepare raises."""
        target = self.selection.target(name)
        if sentence := self.selection.refusal(name, self.source.in_target):
            raise TopicRefused(sentence)
        if self._delivery.alone:
            self._write_alone(name, target)
        source, beyond = self.source.topic(name), ""
        partitions: Sequence[PartitionId] = self.target.topics.prepare(target, source)
        if len(partitions) < source.partitions and self._rules.grows(name):
            try:
                partitions = self.target.topics.grow(target, source.partitions)
            except (TopicMissing, *OUT_OF_REACH) as why:  # existing partitions continue; others ask again when retried
                beyond = str(why)
                text = "source %s: topic %s: its partitions beyond those of the target are held back: %s; it has %d"
                log.warning(text, self.name, name, why, len(partitions), extra=self._event("topic-not-grown", name))
        return TopicRoute(name, source, partitions, self._rules, target=target, beyond=beyond)

    def _write_alone(self, name: str, target: str) -> None:
        """Raise TopicRefused if another topic is already sent to the target topic."""
        mine = f"{self.name}/{name}"
        first = self.target.writers.setdefault(target, mine)
        if first != mine:
            both = merged_sentence(target, (first, mine))
            raise TopicRefused(
                f"topic {name}: resume is target-end, and {both}; their messages could not be kept apart: give one of "
                "them another name (topic.rename, topic.prefix), or set resume: committed"
            )

    def _refuse(self, name: str, why: TopicRefused) -> None:
        """Park the partitions of a topic; each retry checks again whether it may be mirrored."""
        if self.selection.selects(name):
            self._waits(name, str(why))
        held = self._held[name]
        while held:
            fetched, share = held.popleft()
            share.ticket(fetched.resume_at).failed(why, fetched.start)
        del self._held[name]

    def _other(self, name: str, source_topic: str, topic: TopicRoute) -> TopicRoute:
        """Return a topic that message.handler sends to other than the message's own; prepare it when first used."""
        if why := self.selection.why_not_written(name):
            raise HandlerTopicMissing(f"{self.handler_option} sent a message of {source_topic} to {name}, {why}")
        if self.source.in_target and (sentence := self.selection.selected_again(name, source_topic)):
            raise HandlerTopicMissing(f"{self.handler_option} sent a message of {source_topic} to {name}: {sentence}")
        while name not in self._others:
            try:
                partitions = self.target.topics.prepare(name, topic.source)
            except (TopicMissing, LocalError) as exc:
                raise HandlerTopicMissing(
                    f"{self.handler_option} sent a message of {source_topic} to {name}: {exc}"
                ) from exc
            except OUT_OF_REACH as exc:
                log.warning(
                    "source %s: topic %s, which %s sends to, waits: %s", self.name, name, self.handler_option, exc
                )
                sleep(HANDLED_RETRY_S)
            else:
                self._others[name] = TopicRoute(name, topic.source, partitions, self._other_rules)
        return self._others[name]

    def forget_route(self, name: str) -> None:
        """Look up again how many partitions the target has, for a topic that keeps its partition numbers.

        Topics partitioned by key are left alone: with another count, messages of a key would overtake each other.
        """
        topic = self.topics.get(name)
        if topic is not None and topic.route.partitioning == "identity":
            del self.topics[name]

    def target_is_gone(self, name: str) -> bool:
        """Create a deleted target topic again, as at the start.  Return False if this flow does not send to it.

        name: the topic's name in the target.
        """
        flowing = [source for source, topic in self.topics.items() if topic.target == name]
        if not flowing and name not in self._others:
            return any(self.selection.target(source) == name for source in self._held)
        if name not in self._returning:
            self._returning.add(name)
            topic = self.topics[flowing[0]] if flowing else self._others[name]
            self._tasks.spawn(f"return-{self.name}-{name}", self._return, flowing or [name], topic)
        return True

    def _return(self, names: Sequence[str], topic: TopicRoute) -> None:
        """Create a topic again, unless only one of its brokers does not know it yet.

        names: the source topics that are sent there.
        """
        target, first = topic.target, names[0]
        try:
            self._created_again(names, topic)
        except TopicRefused as changed:
            self._waiting.pop(first, None)
            log.info("source %s: %s", self.name, changed, extra=self._event("topic-flows", first))
        self._returning.discard(target)

    def _created_again(self, names: Sequence[str], topic: TopicRoute) -> None:
        """Create the target topic again.  Raises TopicRefused once nothing is sent there any more."""
        topics, target = self.target.topics, topic.target
        first = names[0]

        def prepared() -> Sequence[PartitionId]:
            chosen = self.selection
            if target not in self._others and not any(chosen.selects(n) and chosen.target(n) == target for n in names):
                raise TopicRefused(f"target topic {target} is gone, and nothing is sent there any more")
            return topics.prepare(target, topic.source)

        if not self._until_done(first, topics.view).partitions(target):
            self._waits(
                first, f"target topic {target} is gone; looking for it, and creating it again if that is allowed"
            )
            there = self._until_done(first, prepared)
            text = "source %s: topic %s flows again: the target has %d partitions"
            log.info(text, self.name, first, len(there), extra=self._event("topic-flows", first))
            if len(there) != len(topic.partitions):
                for name in names:
                    self.topics.pop(name, None)  # its route is chosen again
                self._others.pop(target, None)
        sleep(RETRY_MIN_S)  # until every broker knows it

    def _until_done(self, name: str, attempt: Callable[[], T]) -> T:
        """Return what attempt() returns, retried until it succeeds; meanwhile the topic waits.  Raises TopicRefused."""
        pause_s = RETRY_MIN_S
        self._waiting.setdefault(name, PREPARED)  # an attempt may take many seconds
        while True:
            if not self.selection.selects(name) and name in self._held:
                self._waiting.pop(name, None)
                raise TopicRefused(f"topic {name} is not selected any more")
            try:
                found = attempt()
            except TopicRefused:
                if self._waiting.get(name) == PREPARED:  # a reload may have removed the entry
                    del self._waiting[name]
                raise
            except Closed:  # the mirror stops: keep the reason why the topic waited, for the log
                sleep(RETRY_MAX_S)
            except (TopicMissing, *OUT_OF_REACH) as exc:
                self._waits(name, str(exc))
                sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                self._waiting.pop(name, None)
                return found

    def _waits(self, name: str, why: str) -> None:
        if self._waiting.get(name) != why:
            log.warning("source %s: topic %s waits: %s", self.name, name, why, extra=self._event("topic-waits", name))
        self._waiting[name] = why

    def _event(self, event: str, topic: str) -> dict[str, str]:
        """Return the fields of a log line."""
        return {"event": event, "source": self.name, "topic": topic}

    # parked partitions -----------------------------------------------------------------------------------------------

    def release(self, tp: TopicPartition, action: str) -> str:
        """Leave out, once, the message that a partition is parked at.  `action` is dead-letter or skip.

        Return a sentence about what was left out.  Raises ReleaseRefused.  Blocks, so call it in a separate task.
        """
        return self.quarantine.release(tp, action)

    def retry(self, row: PartitionStatus) -> bool:
        """Fetch a parked partition again.  Return False if messages before the bad one are still in flight, or a policy
        is being carried out."""
        if self.quarantine.holds(row.tp):
            return False
        if not self.source.unpark(row.tp):
            return False
        if row.topic not in self.waiting:
            self.forget_route(row.topic)
        return True


def inner_step(step: Step, resume_at: int) -> Step:
    """Return the step of a message that shares its offset with others, with resume_at of the source instead of the
    offset behind it."""
    return Step(resume_at, tuple(replace(part, resume_at=None) for part in step.parts))


class ParkedRetries:
    """Timer that fetches each parked partition again every `every_s` seconds.

    An operator who fixes the cause need not restart the mirror.
    """

    def __init__(self, flow: Flow, every_s: float) -> None:
        self._flow = flow
        self._every_s = every_s
        self._since: dict[TopicPartition, float] = {}  # when it was parked or last tried

    def run(self) -> None:
        while True:
            sleep(min(max(PARKED_POLL_S, self._every_s / PARKED_POLLS), self._every_s))
            self.retry_due(now())

    def retry_due(self, at: float) -> None:
        """Retry the partitions that are due."""
        since: dict[TopicPartition, float] = {}
        for row in self._flow.source.parked_partitions():
            since[row.tp] = self._since.get(row.tp, at)
            if at - since[row.tp] >= self._every_s and self._flow.retry(row):
                since[row.tp] = at
        self._since = since
