"""Position of one partition: the next offset to fetch, and where reading starts or resumes in its log.  Pure.

    offset    the next offset to fetch; None: it must be looked up at the leader, as `seek` says
    refused   the offset that the broker refused (OffsetOutOfRange), until it is known where to resume
    back_to   an earlier offset to resume at, because the log was cut, once everything that was fetched is done
    skips     ranges of the log that cannot be read: a damaged entry, the end of a transaction, a gap

The position only says what is fetched.  Which fetched messages are delivered and done when it moves, the partition
decides (partition.py); what may be committed, its progress (committable.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seek:
    """Lookup of a position, with its reason.

    out_of_range: the committed offset, which cannot be used.  former: the reason, if it belongs to an earlier topic
    (FormerOffset.reason), so that it does not count even if it is inside the log.
    """

    reset: str
    out_of_range: int | None = None
    former: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Reset:
    """Start that auto.offset.reset or the listener chose; each reset is a separate object.

    to: where reading starts.  wanted: the position that it replaces; None if nothing was committed.  former: that
    position belongs to an earlier topic.
    """

    to: int
    wanted: int | None = None
    former: bool = False

    def sets_back(self, same_topic: bool) -> bool:
        """True if offsets from `to` onwards may hold other messages than those read there before.

        same_topic: the messages read before are known to be from today's topic.  If the start is not lower than the
        wanted position, the log only lost its oldest messages, and the rest is unchanged.
        """
        if self.wanted is None or self.former:
            return not same_topic
        return self.to < self.wanted


class FetchPosition:
    """Position of one partition, from its claim onwards."""

    __slots__ = ("_damage", "_gaps", "back_to", "offset", "refused", "seek", "skips")

    def __init__(self, seek: Seek) -> None:
        self.offset: int | None = None
        self.seek = seek
        self.refused: int | None = None
        self.back_to: int | None = None
        self.skips: dict[int, int] = {}  # begin to end
        self._gaps: list[tuple[int, int]] = []  # ranges that were cut off the log and are not done yet
        self._damage: dict[int, int] = {}  # by offset, how often an entry was found damaged there

    @property
    def reached(self) -> int | None:
        """Return the offset up to which messages were fetched, or skipped; None if there was no position yet."""
        return self.refused if self.offset is None else self.offset

    def reset(self, to: int) -> None:
        """Fetch from here, whatever was fetched or refused before."""
        self.offset = to
        self.refused = self.back_to = None
        self.skips.clear()

    def resume(self, at: int) -> None:
        """Fetch from here, or from behind what cannot be read here."""
        self.offset = self.after_skips(at) if self.skips else at

    def refuse(self) -> None:
        """Record that the broker refused the offset."""
        self.refused, self.offset = self.offset, None

    def start_again(self) -> None:
        """Forget what is known of a log that was cut: it is read like one that is new to its reader."""
        self.seek = Seek(self.seek.reset)
        self._gaps.clear()

    # what cannot be read ----------------------------------------------------------------------------------------------

    def skip(self, to: int) -> None:
        """Resume at `to`, because nothing from the offset up to there can be read."""
        assert self.offset is not None
        self.skips[self.offset] = to
        self.offset = self.after_skips(to)  # entries behind it may be known to be damaged already

    def after_skips(self, offset: int) -> int:
        """Return where to resume, for an offset that may have to be skipped."""
        while offset in self.skips:
            offset = self.skips[offset]
        return offset

    def forget_skips(self, before: int) -> None:
        """Forget skips before this offset: only a reset leads back to them."""
        self.skips = {at: to for at, to in self.skips.items() if at >= before}

    def count_gap(self, begin: int, end: int, done: int | None) -> int:
        """Count the offsets in this range as gone from the log.  Return how many of them were not counted before.

        A returned set that is fetched again meets the same gap, and more of it.  done: everything before it is done.
        """
        counted = [gap for gap in self._gaps if gap[1] > (done or 0)]
        met = [gap for gap in counted if gap[0] < end and begin < gap[1]]
        new = end - begin - sum(min(end, to) - max(begin, at) for at, to in met)
        self._gaps = [gap for gap in counted if gap not in met]
        self._gaps.append((min([begin, *(at for at, _ in met)]), max([end, *(to for _, to in met)])))
        return new

    def count_damage(self, at: int, done: int | None) -> int:
        """Count an entry at this offset that was found damaged.  Return how many times so far, including this time.

        done: everything before it is done.
        """
        times = self._damage.get(at, 0) + 1
        self._damage = {offset: count for offset, count in self._damage.items() if offset >= (done or 0)} | {at: times}
        return times

    def find_damage_again(self) -> None:
        """Let damage that is known already count as found for good at once when it is found again."""
        self._damage = {at: times - 1 for at, times in self._damage.items()}

    def __repr__(self) -> str:
        refused = "" if self.refused is None else f", {self.refused} refused"
        return f"<FetchPosition {self.offset}{refused}>"
