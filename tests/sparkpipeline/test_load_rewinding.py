"""Which files a rewind replaces, which hours are complete, what is put together.  No cluster, no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, Refused
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.ledger.manifests import LiveFile
from sparkpipeline.load import hours
from sparkpipeline.load.compaction import groups
from sparkpipeline.load.loadplan import LogBounds
from sparkpipeline.load.rewind import Rewind, loaded_files, rewind, time_of
from sparkpipeline.paths import FinalName, Hour

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TEN = Hour("t", "2026-01-01", "10").begin_ms
HOUR = 3600_000


def live(hour: str, start: int, until: int, partition: int = 0, batch: int = 1, rows: int = 10) -> LiveFile:
    name = f"t+{partition}+{start:020}+{until:020}.g{batch}.c000.snappy.parquet"
    return LiveFile(f"data/topic=t/date=2026-01-01/hour={hour}/{name}", rows, 100, batch)


FILES = [
    live("10", 0, 100), live("11", 0, 100), live("11", 100, 200, batch=2), live("12", 200, 300, batch=3),
    live("10", 0, 50, partition=1), live("10", 50, 60, partition=1, batch=3),
]  # fmt: skip
POSITIONS = {P0: 300, P1: 60}
LOGS = {P0: LogBounds(0, 900), P1: LogBounds(0, 60)}


def wind(to_ms: int, files: list[LiveFile] = FILES, **more: object) -> Rewind:
    told = {"positions": POSITIONS, "logs": LOGS, "topic": "t", "partition": None, **more}
    return rewind(loaded_files(files, {}), to_ms=to_ms, **told)  # type: ignore[arg-type]


def spans(found: Rewind) -> list[tuple[object, int, int]]:
    return [(rng.partition, rng.start, rng.until) for rng in found.ranges]


def test_it_begins_with_the_first_range_that_has_rows_of_the_time() -> None:
    found = wind(TEN + 2 * HOUR)
    assert spans(found) == [(0, 200, 300)]
    assert [file.final for file in found.supersedes] == [FILES[3].final]
    found = wind(TEN + HOUR)
    assert spans(found) == [(0, 0, 300)]  # the first range has rows of 11 o'clock, too
    assert (len(found.supersedes), found.rows, len(found.hours)) == (4, 40, 3)
    assert spans(wind(TEN, partition=1)) == [(1, 0, 60)]


def test_what_was_counted_is_finer_than_an_hour() -> None:
    counted = {(P1, 0, 50): TEN + 5, (P1, 50, 60): TEN + 90}
    found = rewind(loaded_files(FILES, counted), POSITIONS, LOGS, topic="t", partition=1, to_ms=TEN + 6)
    assert spans(found) == [(1, 50, 60)]
    # Rows without a time of their own lie in the hour of their plan, behind what was counted.
    assert loaded_files([live("12", 0, 50, partition=1)], counted)[0].max_ms == TEN + 3 * HOUR - 1


def test_a_compacted_file_moves_the_boundary_down() -> None:
    files = [live("10", 0, 250, batch=4), live("11", 100, 200, batch=2), live("12", 200, 300, batch=3)]
    assert spans(wind(TEN + 2 * HOUR, files)) == [(0, 0, 300)]


def test_what_the_cluster_deleted_is_refused_or_kept() -> None:
    logs = {P0: LogBounds(120, 900), P1: LogBounds(0, 60)}
    with pytest.raises(OffsetOutOfRange, match=r"requested=0 earliest=120: the cluster has deleted 120"):
        wind(TEN, logs=logs)
    found = wind(TEN, logs=logs, allow_partial=True)
    assert spans(found) == [(0, 200, 300), (1, 0, 60)]
    assert found.kept == ((P0, "from 200 on instead of 0: the log begins at 120"),)
    assert [FinalName.of(file.final).start for file in found.supersedes if "t+0+" in file.final] == [200]  # type: ignore[union-attr]
    nothing = wind(TEN, logs={P0: LogBounds(250, 900), P1: LogBounds(60, 60)}, allow_partial=True)
    assert spans(nothing) == []
    assert len(nothing.kept) == 2


def test_another_log_under_the_same_name_is_refused() -> None:
    with pytest.raises(OffsetOutOfRange, match="another log"):
        wind(TEN, logs={P0: LogBounds(0, 10), P1: LogBounds(0, 60)})


def test_nothing_of_that_time_is_refused() -> None:
    with pytest.raises(Refused, match="nothing of t was loaded"):
        wind(TEN + 9 * HOUR)


def test_a_topic_that_was_never_loaded_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="the job has loaded no topic tt; it has t"):
        wind(TEN, topic="tt")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("2026-01-01T10:00Z", TEN), ("2026-01-01T10:00", TEN), ("2026-01-01T11:00+01:00", TEN), (str(TEN), TEN),
     ("2026-01-01", TEN - 10 * HOUR)],
)  # fmt: skip
def test_times_are_utc_unless_they_say_otherwise(text: str, ms: int) -> None:
    assert time_of(text) == ms


@pytest.mark.parametrize("text", ["yesterday", "\u00b2", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OptionRefused, match="--to"):
        time_of(text)


def test_a_number_that_means_a_day_or_seconds_does_not_rewind_everything() -> None:
    for text in ("20260101", "2026", "1767261600"):
        with pytest.raises(OptionRefused, match=rf"option=--to: {text} ms is early in 1970"):
            time_of(text)
    assert time_of("0") == 0


# ---- hours


def test_an_hour_is_closed_when_its_slowest_partition_has_passed_it() -> None:
    passed = hours.passed({P0: TEN, P1: TEN + 5}, {P0: TEN + 3 * HOUR, P1: TEN - 1}, [], TEN + 9 * HOUR)
    assert passed == {P0: TEN + 3 * HOUR, P1: TEN + 5}
    assert hours.closed_until(passed, ["t"], 2) == {"t": TEN + 3}
    passed = hours.passed(passed, {}, [P1], TEN + 9 * HOUR)
    assert passed[P1] == TEN + 9 * HOUR  # nothing is left to load there
    complete = hours.to_close(FILES, hours.closed_until(passed, ["t"], HOUR))
    assert sorted((hour.hour, said["rows"]) for hour, said in complete.items()) == [("10", 30), ("11", 20)]


def test_a_clock_that_is_wrong_closes_no_hour() -> None:
    assert hours.passed({}, {P0: TEN + 1000 * HOUR}, [], TEN) == {P0: TEN}


def test_markers_are_made_once_the_oldest_first(tmp_path: Path) -> None:
    base, files = f"file://{tmp_path}", LocalFiles()
    wanted = {Hour("t", "2026-01-01", hour): {"rows": 1} for hour in ("10", "11", "12")}
    assert [hour.hour for hour in hours.unmarked(files, base, wanted, [])] == ["10", "11", "12"]
    first = min(wanted)
    assert hours.close(files, base, first, wanted[first], TEN)
    assert not hours.close(files, base, first, wanted[first], TEN + 1)
    assert hours.is_closed(files, base, first)
    assert [hour.hour for hour in hours.unmarked(files, base, wanted, [])] == ["11", "12"]


def test_a_late_hour_is_marked_however_old_it_is(tmp_path: Path) -> None:
    base, files = f"file://{tmp_path}", LocalFiles()
    wanted = {Hour("t", f"2026-01-{day:02}", f"{hour:02}"): {} for day in range(1, 5) for hour in range(24)}
    old = Hour("t", "2026-01-01", "03")
    for hour in wanted:
        if hour != old:
            hours.close(files, base, hour, {}, TEN)
    assert hours.unmarked(files, base, wanted, []) == []
    assert hours.unmarked(files, base, wanted, [old]) == [old]


# ---- compaction


def test_only_hours_with_several_files_of_a_partition_are_put_together() -> None:
    (eleven,) = groups(FILES, "2026-01-01", hour="11")
    assert (eleven.partition, eleven.start, eleven.until, eleven.rows, len(eleven.files)) == ("0", 0, 200, 20, 2)
    assert [(g.hour.hour, g.partition) for g in groups(FILES, "2026-01-01")] == [("10", "1"), ("11", "0")]
    assert groups(FILES, "2026-01-01", min_files=3) == []
    assert groups(FILES, "2026-01-02") == groups(FILES, "2026-01-01", topic="u") == []


def test_a_partition_that_a_rewind_only_sees_has_passed_nothing() -> None:
    assert hours.at_heads({P0: 300}, {P0: 300, P1: 7}) == [P0]
    assert hours.at_heads({P0: 299}, {P0: 300}) == []


def test_a_clock_that_once_went_ahead_is_forgotten() -> None:
    assert hours.passed({P0: 9_000, P1: 3_000}, {}, [], 5_000) == {P0: 5_000, P1: 3_000}
