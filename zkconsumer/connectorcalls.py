"""What a program may ask of a connector that has streams; zkconsumer.connector makes it, starts it and ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from groundwork.hub import Hub
from kafkawire.model import TopicPartition
from zkconsumer.engine.engine import Engine
from zkconsumer.engine.status import OffsetsStatus, PartitionStatus
from zkconsumer.errors import Closed
from zkconsumer.offsets.modes import MODES, Mode

T = TypeVar("T")


class ConnectorCalls:
    """The calls, each from any thread; Closed before there are streams, and after the end."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._engine: Engine | None = None
        self._closed = False

    @property
    def hub(self) -> Hub:
        """Where it lives."""
        return self._hub

    @property
    def closed(self) -> bool:
        """It was shut down, to the end."""
        return self._closed

    def commit_offsets(
        self, positions: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, Exception | None]:
        """Commit what is done of every owned partition; per partition None, or why it was not (known to be) written.

        positions: commit just these instead, the next position to read of each; for owned partitions only.  One behind
        the end of the log is refused (BeyondEnd in the result), a negative one is a ValueError.  With
        auto.commit.enable the timer goes on committing what is done: a program that gives positions switches it off.
        """
        return self._hub.call(self._acting().controls.commit, positions)

    def pause(self, *what: str | TopicPartition) -> None:
        """Fetch and hand out nothing of these partitions, or of all partitions of these topics, until resume().

        They need not be owned: it holds for as long as the connector lives, through every rebalance.  Other partitions
        of the same stream go on; what is in the program's hands may still be done.
        """
        self._hub.call(self._acting().controls.pause, what)

    def resume(self, *what: str | TopicPartition) -> None:
        """End a pause; nothing is left out or repeated.  A partition may be resumed while its topic stays paused."""
        self._hub.call(self._acting().controls.resume, what)

    def seek(self, tp: TopicPartition, position: int | str) -> None:
        """Hand out the message at position next, of an owned partition; "smallest" and "largest" are its log's ends.

        What is in the program's hands does not count any more.  A position outside the log is found out when it is
        fetched, and treated as auto.offset.reset says.  Raises ConsumerError when it is not owned, or when its leader
        cannot be asked for an end.
        """
        self._hub.call(self._acting().controls.seek, tp, position)

    def status(self) -> list[PartitionStatus]:
        """A row for each owned partition, sorted."""
        return [] if self._engine is None or self._closed else self._hub.call(self._engine.controls.status)

    @property
    def settled(self) -> bool:
        """The member reads all of its share, as far as it knows."""
        return self._engine is not None and self._engine.settled

    @property
    def silent_s(self) -> float:
        """Seconds since ZooKeeper gave its last sign of life; 0 before the first and while all is well.

        A beat is sent each twelfth of the session's time-out; a third of it is no news.
        """
        return 0.0 if self._engine is None or self._closed else self._engine.silent_s

    @property
    def outage(self) -> str:
        """The brokers and leaders that are out of reach, since when, and how many partitions that hits; "": none."""
        return "" if self._engine is None or self._closed else self._engine.outage

    def ask(self, what: str, question: Callable[..., T], *args: object) -> T:
        """question(zk, znodes, *args), such as one of kafkawire.cluster.zookeeper's reads, on our own session.

        what names it in errors: ZooKeeperAway while there is no session, ConsumerError when ZooKeeper refuses.
        """
        engine = self._running()
        return self._hub.call(lambda: engine.ask(what, question, *args))

    def park(self, tp: TopicPartition, reason: str) -> None:
        """Deliver nothing more of an owned partition; it stays owned, its reason is shown by status()."""
        self._hub.call(self._acting().controls.park, tp, reason)

    def unpark(self, tp: TopicPartition) -> bool:
        """Read a parked partition once more, from what is done.  False: it is not parked (or not ours any more), or
        what came before it is still under way: try later.

        Parked again for the same reason, it is not told again; once it got past the place, an event says so.  One that
        is parked because its offset store did not tell its position: the store is asked again (ConsumerError: in vain).
        """
        return self._hub.call(self._acting().controls.unpark, tp)

    def switch_offsets(self, mode: Mode) -> None:
        """Keep offsets in "zookeeper", in both ("dual") or in "kafka" from now on; the same one again changes nothing.

        One step at a time: zookeeper <-> dual <-> kafka.  Everything is committed in the new mode before it comes back;
        what cannot be is NotSwitched (zkconsumer.offsets.modeswitch), and a step that is not allowed, or not beside the
        other members, ModeRefused; both are ConsumerError, and then nothing has changed.  A restart begins as its
        options say.
        """
        if mode not in MODES:
            raise ValueError(f"{mode!r} as a place for offsets: {', '.join(MODES)} are wanted")
        self._hub.call(self._acting().side.switch_offsets, mode)

    @property
    def offsets(self) -> OffsetsStatus | None:
        """Where offsets are kept now, and what became of them; None before there are streams, and without a group."""
        return None if self._engine is None or self._closed else self._engine.side.offsets

    def _running(self) -> Engine:
        if self._engine is None or self._closed:
            raise Closed("the connector has no streams" if not self._closed else "the connector was shut down")
        return self._engine

    def _acting(self) -> Engine:
        """For calls that do something: the first of them hears of a listener that failed."""
        engine = self._running()
        engine.hooks.raise_kept()
        return engine
