"""Rows that do not get an hour of their own: counted, reported, and refused where the options must be wrong.  Pure.

    no time           no JSON, no such field, a year before 1970: such a row is in the hour of the plan
    January 1970      seconds that were read as milliseconds: the row is in that hour
    too many hours    a producer's clock that jumps makes a folder of each hour; beyond batch.hours rows are in the hour
                      of the plan

A job whose first batch of some topics has no usable time at all is refused: a mistyped field would put years of rows
into today.  Later such a batch is reported, because a topic may have a batch of nothing but tombstones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from groundwork.sentences import counted
from sparkpipeline.errors import Refused
from sparkpipeline.ledger.manifests import utc
from sparkpipeline.load.counts import CountedFile, RangeCount
from sparkpipeline.load.hourrules import CALLABLE, FIELD, MESSAGE, OF_PLAN, HourRule
from sparkpipeline.paths import Hour, hour_at

FEBRUARY_1970_MS = 31 * 86400_000
SHOWN = 3  # topics named one by one


@dataclass(frozen=True, slots=True)
class TopicTimes:
    """Times of one topic's rows in a batch.  untimed: rows without a time of their own; latest_ms: of the others."""

    topic: str
    rows: int
    untimed: int
    latest_ms: int | None

    @property
    def in_1970(self) -> bool:
        """True if rows have times, and all of these lie in January 1970."""
        return self.latest_ms is not None and self.latest_ms < FEBRUARY_1970_MS

    @property
    def unusable(self) -> bool:
        """True if no row has a time that can be meant."""
        return self.latest_ms is None or self.in_1970

    def sentence(self, rule: HourRule) -> str:
        """Return a sentence if these times are odd, else ""."""
        rows, where = counted(self.rows, "row", form=","), "in the hour of the plan"
        if self.in_1970 and self.latest_ms is not None:
            helps = f": does it hold seconds? time.unit says {rule.unit}" if rule.source == FIELD else ""
            return (
                f"all times of {rows} of {self.topic} lie in January 1970, the latest at {utc(self.latest_ms)}{helps}"
            )
        if self.untimed == self.rows:
            return f"none of {rows} of {self.topic} has {_a_time(rule)}: all are {where}"
        if self.untimed:
            return f"{self.untimed:,} of {rows} of {self.topic} do not have {_a_time(rule)}: they are {where}"
        return ""


def _a_time(rule: HourRule) -> str:
    if rule.source == FIELD:
        return f"a time in {rule.field} (time.unit {rule.unit})"
    return "a timestamp" if rule.source == MESSAGE else f"a time by {rule.function}"


def topic_times(counts: Iterable[RangeCount]) -> list[TopicTimes]:
    """Return the times of each topic that has rows, by name."""
    by_topic: dict[str, list[RangeCount]] = {}
    for count in counts:
        if count.rows:
            by_topic.setdefault(count.range.topic, []).append(count)
    return [
        TopicTimes(
            topic,
            rows=sum(count.rows for count in mine),
            untimed=sum(count.rows - count.timed for count in mine),
            latest_ms=max((count.max_ms for count in mine if count.max_ms is not None), default=None),
        )
        for topic, mine in sorted(by_topic.items())
    ]


def check_times(found: Sequence[TopicTimes], rule: HourRule, loaded: Collection[str], batch: int) -> None:
    """Raise Refused where no row of a batch has a usable time, and none of its topics was loaded before.

    loaded: topics that were."""
    if rule.source not in (FIELD, CALLABLE) or not found:
        return
    if all(one.unusable for one in found) and not any(one.topic in loaded for one in found):
        raise Refused(
            f"no row has a usable time: {'; '.join(sentences(found, rule))}.  Nothing is loaded: correct time.field,"
            " time.unit or time.callable, or say time.from: plan where messages have no time, and give this plan up"
            f" with `sparkpipeline load abandon JOB {batch}`",
            batch=batch,
        )


def sentences(found: Iterable[TopicTimes], rule: HourRule) -> list[str]:
    """Return what is odd about the times of each topic, a sentence a topic; with time.from=plan nothing is."""
    said = [text for one in found if (text := one.sentence(rule))] if rule.source != OF_PLAN else []
    more = len(said) - SHOWN
    return [*said[:SHOWN], *([f"the same of {counted(more, 'more topic')}"] if more > 0 else [])]


# ---- too many hours --------------------------------------------------------------------------------------------------


def gathered(counts: Sequence[RangeCount], most: int, plan_ms: int) -> list[RangeCount]:
    """Return the counts with no more than `most` hours of each topic, and the plan's.

    The hours with the most rows stay, the later ones of equals; files of the others get names in the hour of the
    plan."""
    rows: dict[str, dict[Hour, int]] = {}
    for count in counts:
        for file in count.files:
            of_topic = rows.setdefault(file.name.hour.topic, {})
            of_topic[file.name.hour] = of_topic.get(file.name.hour, 0) + file.back.rows
    dropped: set[Hour] = set()
    for topic, of_topic in rows.items():
        of_topic.pop(hour_at(topic, plan_ms), None)
        dropped |= set(sorted(of_topic, key=lambda hour: (of_topic[hour], hour), reverse=True)[most:])
    return [_gathered(count, dropped, plan_ms) for count in counts] if dropped else list(counts)


def _gathered(count: RangeCount, dropped: Collection[Hour], plan_ms: int) -> RangeCount:
    here = hour_at(count.range.topic, plan_ms)
    stay = [file for file in count.files if file.name.hour not in dropped]
    taken = {file.name.piece for file in stay if file.name.hour == here}
    free = (piece for n in range(len(count.files) + len(taken)) if (piece := f".c{n:03}") not in taken)
    moved: list[CountedFile] = [
        replace(file, name=replace(file.name, hour=here, piece=next(free)), gathered=True)
        for file in count.files
        if file.name.hour in dropped
    ]
    return replace(count, files=(*stay, *moved)) if moved else count


def gathered_sentences(counts: Iterable[RangeCount], most: int) -> list[str]:
    """Return a sentence for each topic with rows of more hours than batch.hours."""
    found: dict[str, tuple[int, int]] = {}
    for count in counts:
        for file in count.files:
            if file.gathered:
                files, rows = found.get(count.range.topic, (0, 0))
                found[count.range.topic] = files + 1, rows + file.back.rows
    said = [
        f"{topic} has rows of more than {most:,} hours: {counted(rows, 'row', form=',')} of those with the fewest rows"
        f" are in the hour of the plan, in {counted(files, 'file', form=',')} (`load compact` joins them); is a"
        " producer's clock wrong? Otherwise raise batch.hours and load them again with `load rewind`"
        for topic, (files, rows) in sorted(found.items())
    ]
    more = len(said) - SHOWN
    return [*said[:SHOWN], *([f"the same of {counted(more, 'more topic')}"] if more > 0 else [])]
