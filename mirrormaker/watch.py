"""What a mirror says about itself while it runs: the status line, and systemd's signs of life."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from groundwork.hublag import HubLag
from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from mirrormaker.source import Source, total_done
from mirrormaker.status import Blocked, Snapshot, StatusLine, status_line
from mirrormaker.systemd import Systemd
from producer.sender import Sender
from zkconsumer.engine.status import PartitionStatus

log = logging.getLogger(__name__)

STALL_S = 120.0  # so long may partitions lag without moving, with nobody else to blame
PINGS_PER_LIMIT = 4
LOOK_S = 0.2


class Watch:
    """Looks at origins and sender; changes nothing."""

    def __init__(
        self, origins: Sequence[Source], sender: Sender, terminal: StatusLine, systemd: Systemd, interval_s: float
    ) -> None:
        self._origins = origins
        self._sender = sender
        self._terminal = terminal
        self._systemd = systemd
        self._interval_s = interval_s
        self._done: list[dict[TopicPartition, int]] = [{} for _ in origins]
        self._messages = 0
        self._before = self.snapshot()
        self._moved_at = now()
        self._positions: dict[tuple[str, TopicPartition], object] = {}

    def snapshot(self) -> Snapshot:
        """The mirror now."""
        rows = self._count()
        lags = [row.lag for row in rows]
        by_bytes = [origin.counts_bytes for origin in self._origins]
        silent = any(origin.trouble for origin in self._origins)
        # Without its ZooKeeper a source soon owns nothing, and nothing has no lag: that must not read as all is well.
        blind = silent or not all(origin.settled or origin.partitions() for origin in self._origins)
        by_parts = any(by_bytes) or any(origin.has_handler for origin in self._origins)
        return Snapshot(
            at=now(),
            # How many messages lie between two bytes nobody knows, nor how many a handler sends for one: then those
            # are counted that the target took.  Elsewhere what is done was acknowledged, also inside of wrappers.
            messages=self._sender.counters.messages if by_parts else self._messages,
            bytes=self._sender.counters.bytes,
            lag=None if None in lags or blind else self._lag(False),
            lag_bytes=self._lag(True) if any(by_bytes) else None,
            in_flight_bytes=self._sender.bytes_pending,
            owned=len(rows),
            parked=tuple(Blocked(str(row.tp), row.parked) for row in rows if row.parked is not None),
            waiting=tuple(still for origin in self._origins for still in origin.waiting()),
            trouble="; ".join(self._out_of_reach()),
            dropped=sum(origin.dropped for origin in self._origins),
        )

    def _out_of_reach(self) -> Iterator[str]:
        """Sentences on every part of a cluster that does not answer, each with whose it is."""
        for origin in self._origins:
            yield from filter(None, (origin.trouble, origin.outage))
        if self._sender.outage:
            yield f"target: {self._sender.outage}"

    def _lag(self, in_bytes: bool) -> int:
        """Of the sources that count so; what is not known counts for nothing."""
        origins = [origin for origin in self._origins if origin.counts_bytes == in_bytes]
        return sum(row.lag or 0 for origin in origins for row in origin.partitions())

    def _count(self) -> list[PartitionStatus]:
        """Everything owned; what is done since the last look is counted."""
        rows: list[PartitionStatus] = []
        for number, origin in enumerate(self._origins):
            own = origin.partitions()
            done, self._done[number] = total_done(self._done[number], own)
            self._messages += done
            rows += own
        return rows

    def line(self) -> str:
        """The status line since the last one."""
        before, self._before = self._before, self.snapshot()
        return status_line(before, self._before)

    def run(self) -> None:
        """A line each interval: on the terminal in place, else in the log; and to systemd."""
        while True:
            shown_at = now()
            while (left_s := shown_at + self._interval_s - now()) > 0:
                sleep(min(left_s, LOOK_S))
                self._count()  # what a partition did before it moved elsewhere is not lost to the rate
            line = self.line()
            self._systemd.status(line)
            if self._terminal.rewrites:
                self._terminal.show(line)
            else:
                log.info("%s", line, extra={"key": f"status {self._before.at}"})  # never counted as a repetition

    def signs_of_life(self, limit_s: float, lag: HubLag) -> None:
        """Ping systemd while the hub is in time and the pipeline moves, or has an outside reason not to."""
        while True:
            sleep(limit_s / PINGS_PER_LIMIT)
            late_ms = lag.take()
            if late_ms > limit_s * 1000 / 2:
                log.error("the program could not run for %.0f ms; systemd is not told that all is well", late_ms)
            elif self.stalled(now()):
                log.error(
                    "partitions lag and nothing has moved for %.0f s; systemd is not told that all is well", STALL_S
                )
            else:
                self._systemd.alive()

    def stalled(self, at: float) -> bool:
        """Whether something lags that could move and has not for STALL_S, and neither the target, nor ZooKeeper, nor a
        missing leader or topic is the reason."""
        excused = self._sender.bytes_pending > 0 or any(origin.trouble for origin in self._origins)
        positions: dict[tuple[str, TopicPartition], object] = {}
        for origin in self._origins:
            waiting = {still.name for still in origin.waiting()}
            for row in origin.partitions():
                if row.state == "reading" and row.lag and row.topic not in waiting:
                    positions[origin.name, row.tp] = (row.position, row.done)
        still = {name for name, position in positions.items() if self._positions.get(name) == position}
        if excused or not still:
            self._moved_at = at
        self._positions = positions
        return at - self._moved_at > STALL_S
