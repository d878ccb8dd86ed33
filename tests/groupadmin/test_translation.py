"""Positions by hand-made maps: what is taken, and the sentence of each refusal."""

from __future__ import annotations

import pytest

from groupadmin.commands.editoptions import ClusterOptions
from groupadmin.commands.offsettranslate import Source, _read
from groupadmin.plan.resets import Problem
from groupadmin.translation import Facts, Safe, translated
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from tests.groupadmin.snapshot.worlds import fakes
from zkconsumer.offsetmap.records import Begun, Entry, OffsetMap, Reached, Record, gathered, merged

S0, S1, T0, T1 = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("t", 1))
TOPICS = {"t": [T0, T1]}
ONE = {"t": [T0]}
SEVEN = TopicPartition("t", BrokerPartition(1, 0))


def identity(*more: Record) -> OffsetMap:
    """t/0 from 100 on: every 100 messages an entry, at 1000 more; copied up to 450."""
    entries = [Entry(S0, T0, n, n + 1000, n + 1000) for n in (100, 200, 300, 400)]
    return gathered([Begun(S0, 100, 1, True), *entries, Reached(S0, 450), *more])


def facts(read: dict[TopicPartition, int], ends: dict[TopicPartition, int] | None = None, target: int = 2000) -> Facts:
    source = {tp: (0, end) for tp, end in (ends or {S0: 500}).items()}
    return Facts({T0: (0, target), T1: (0, target)}, source, read)


@pytest.mark.parametrize(
    ("at", "begin", "repeats"), [(100, 1100, 0), (150, 1100, 100), (399, 1300, 100), (400, 1400, 0)]
)
def test_a_position_between_two_entries(at: int, begin: int, repeats: int) -> None:
    assert translated(identity(), facts({S0: at}), ONE) == {T0: Safe(begin, repeats)}


def test_behind_the_last_entry_the_end_of_the_log_is_the_bound() -> None:
    assert translated(identity(), facts({S0: 440}, target=1460), ONE) == {T0: Safe(1400, 60)}


def test_who_has_read_everything_goes_on_at_the_end() -> None:
    assert translated(identity(), facts({S0: 450}, {S0: 450}, 1450), ONE) == {T0: Safe(1450, 0)}


def test_a_mirror_that_began_again_repeats_what_it_had_sent_and_the_later_copy_counts() -> None:
    again = identity(Begun(S0, 300, 2, True), Entry(S0, T0, 300, 1450, 1450), Reached(S0, 450))
    assert translated(again, facts({S0: 300}, target=1600), ONE) == {T0: Safe(1450, 0)}
    assert translated(again, facts({S0: 320}, target=1600), ONE) == {T0: Safe(1450, 150)}
    assert translated(again, facts({S0: 250}, target=1600), ONE) == {T0: Safe(1200, 100)}


def test_maps_of_several_mirrors_are_one() -> None:
    other = gathered([Begun(S0, 450, 2, True), Entry(S0, T0, 450, 1700, 1700), Reached(S0, 500)])
    for maps in ([identity(), other], [other, identity()]):
        assert translated(merged(maps), facts({S0: 480}, {S0: 900}), ONE) == {T0: Safe(1700, 300)}
        assert translated(merged(maps), facts({S0: 150}), ONE) == {T0: Safe(1100, 100)}


def test_of_a_source_that_was_created_again_only_its_new_log_counts() -> None:
    old = [Begun(S0, 100, 1, True, 5), Entry(S0, T0, 100, 1000, 1000), Reached(S0, 450)]
    new = [Begun(S0, 0, 2, True, 9), Entry(S0, T0, 0, 1500, 1500), Reached(S0, 300)]
    for offsets in (gathered([*old, *new]), merged([gathered(new), gathered(old)])):
        assert [period.begun.topic for period in offsets.periods[S0]] == [9]
        assert translated(offsets, facts({S0: 150}, {S0: 900}), ONE) == {T0: Safe(1500, 500)}
        assert isinstance(translated(offsets, facts({S0: 400}, {S0: 900}), ONE)[T0], Problem)
    earlier_release = [Begun(S0, 100, 1, True), *old[1:], Begun(S0, 450, 2, True, 9), Entry(S0, T0, 450, 1450, 1450)]
    assert len(gathered(earlier_release).periods[S0]) == 2


def test_of_a_target_that_was_made_anew_only_what_came_since_counts() -> None:
    anew = [Entry(S0, T0, 450, 3, 3), Reached(S0, 500)]
    offsets = identity(*anew)
    assert offsets.periods[S0][0].entries == {T0: [anew[0]]}
    assert translated(offsets, facts({S0: 460}, {S0: 600}), ONE) == {T0: Safe(3, 1997)}
    row = translated(offsets, facts({S0: 440}, {S0: 600}), ONE)[T0]
    assert isinstance(row, Problem)
    assert "is not written down yet" in row.text


def keyed() -> OffsetMap:
    records: list[Record] = []
    for source, low in ((S0, 1000), (S1, 1005)):
        records.append(Begun(source, 0, 1, False))
        for n in range(0, 500, 100):
            records += [Entry(source, tp, n, low + 2 * n, low + 2 * n) for tp in (T0, T1)]
        records.append(Reached(source, 500))
    return gathered(records)


def test_where_keys_choose_the_slowest_source_partition_decides() -> None:
    found = translated(keyed(), facts({S0: 100, S1: 400}, {S0: 900, S1: 900}), TOPICS)
    assert found == {T0: Safe(1200, 605, 605), T1: Safe(1200, 605, 605)}
    row = found[T0]
    assert isinstance(row, Safe)
    assert row.note == "up to 605 of them, as source partitions that feed it were not read equally far"


def test_an_idle_source_partition_asks_for_nothing() -> None:
    silent = [Begun(S1, 7, 1, None)]
    assert translated(identity(*silent), facts({S0: 200, S1: 7}, {S0: 500, S1: 7}), TOPICS) == {
        T0: Safe(1200, 800, 800),
        T1: Safe(2000, 0),
    }


def test_a_target_partition_that_nothing_was_mirrored_to_gets_the_beginning_of_its_log() -> None:
    known = Facts({T0: (0, 2000), T1: (700, 730)}, {S0: (0, 500)}, {S0: 200})
    found = translated(identity(), known, TOPICS)
    assert found == {T0: Safe(1200, 0), T1: Safe(700, 30, mapped=False)}
    row = found[T1]
    assert isinstance(row, Safe)
    assert row.note == "the offset map has nothing for it, so the group starts at the beginning of its log, 700"


def test_so_does_one_whose_source_partition_is_empty_and_was_never_read() -> None:
    known = facts({S0: 200}, {S0: 500, S1: 0}, target=2000)
    offsets = identity(Begun(S1, 0, 1, True), Entry(S1, T1, 0, 5, 5))
    assert translated(offsets, known, TOPICS) == {T0: Safe(1200, 0), T1: Safe(0, 2000, mapped=False)}


def test_where_such_a_log_begins_has_to_be_known() -> None:
    row = translated(identity(), Facts({T0: (0, 2000)}, {S0: (0, 500)}, {S0: 200}), TOPICS)[T1]
    assert row == Problem(
        "t/1: where its log begins and ends is not known, no leader answered; try again when it has one"
    )


REFUSALS = [
    (identity(), facts({S0: 50}), "t/0: the group is at 50 of source partition t/0, and the map begins at 100"),
    (
        identity(),
        facts({S0: 460}),
        "t/0: the group is at 460 of source partition t/0 (its log ends at 500), and the map",
    ),
    (
        identity(),
        facts({S0: 200}, target=1100),
        "t/0: the map has messages from 1200 on, and its log ends at",
    ),
    (
        identity(),
        facts({S0: 440}, {S0: 430}),
        "t/0: the group is at 440 of source partition t/0, and its log ends at 430",
    ),
    (keyed(), facts({S0: 100}, {S0: 500, S1: 500}), "t/0: the group has no position of source partition t/1, which"),
    (identity(), facts({S0: 200, S1: 5}, {S0: 500, S1: 9}), "t/0: source partition t/1 is not in the map"),
    (identity(), Facts({}, {S0: (0, 500)}, {S0: 200}), "t/0: where its log begins and ends is not known"),
]


@pytest.mark.parametrize(("offsets", "known", "sentence"), REFUSALS)
def test_what_is_not_covered_is_refused_with_the_reason(offsets: OffsetMap, known: Facts, sentence: str) -> None:
    row = translated(offsets, known, TOPICS)[T0]
    assert isinstance(row, Problem)
    assert row.text.startswith(sentence), row.text


def test_positions_of_0_7_are_byte_positions_of_broker_partitions() -> None:
    records = [Begun(SEVEN, 0, 1, False), *(Entry(SEVEN, T0, n * 4000, n * 50, n * 50) for n in range(5))]
    offsets = gathered([*records, Reached(SEVEN, 18000)])
    known = Facts({T0: (0, 230), T1: (0, 0)}, {SEVEN: (0, 18000)}, {SEVEN: 9000})
    found = translated(offsets, known, TOPICS)
    assert found == {T0: Safe(100, 50), T1: Safe(0, 0)}


def test_a_group_moves_to_the_name_that_its_topic_has_in_the_target() -> None:
    there = [TopicPartition("dc1.t", n) for n in (0, 1)]
    records = [Begun(S0, 100, 1, True, 5, "dc1.t"), Entry(S0, there[0], 100, 1100, 1100), Reached(S0, 450)]
    idle = Begun(S1, 0, 1, None, None, "dc1.t")  # nothing was sent yet
    ends = {there[0]: (0, 2000), there[1]: (40, 40), T0: (0, 9), T1: (0, 9)}
    known = Facts(ends, {S0: (0, 500), S1: (0, 0)}, {S0: 200})
    found = translated(gathered([*records, idle]), known, {"dc1.t": there, "t": [T0, T1]})
    assert found == {there[0]: Safe(1100, 900), there[1]: Safe(40, 0, mapped=False)}


def test_a_partition_that_is_not_in_the_map_is_a_problem_of_the_renamed_topic() -> None:
    there = [TopicPartition("dc1.t", n) for n in (0, 1)]
    records = [Begun(S0, 100, 1, True, 5, "dc1.t"), Entry(S0, there[0], 100, 1100, 1100), Reached(S0, 450)]
    known = Facts(dict.fromkeys(there, (0, 2000)), {S0: (0, 500), S1: (0, 80)}, {S0: 200, S1: 10})
    found = translated(gathered(records), known, {"dc1.t": there})
    assert set(found) == set(there)
    assert all("source partition t/1 is not in the map" in str(row) for row in found.values())


def test_a_topic_that_was_renamed_later_feeds_both_names() -> None:
    new = TopicPartition("dc1.t", 0)
    offsets = identity(Begun(S0, 450, 2, True, None, "dc1.t"))
    read_all = Facts({T0: (0, 1450), new: (0, 70)}, {S0: (0, 450)}, {S0: 450})
    assert translated(offsets, read_all, {"t": [T0], "dc1.t": [new]}) == {T0: Safe(1450, 0), new: Safe(70, 0)}


def test_a_topic_that_has_its_own_name_again_feeds_both_names() -> None:
    new = TopicPartition("dc1.t", 0)
    records = [Begun(S0, 0, 1, True, None, "dc1.t"), Entry(S0, new, 0, 70, 70), Reached(S0, 450)]
    back = Begun(S0, 450, 2, True)  # and nothing was sent since
    read_all = Facts({T0: (0, 1450), new: (0, 520)}, {S0: (0, 450)}, {S0: 450})
    found = translated(gathered([*records, back]), read_all, {"t": [T0], "dc1.t": [new]})
    assert found == {T0: Safe(1450, 0), new: Safe(520, 0)}


# ---- a source whose leader was just elected --------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "begin", "repeats"), [(400, 1400, 0), (420, 1400, 50), (450, 1450, 0)])
def test_who_stands_at_an_end_that_is_told_below_what_was_copied_has_not_read_all(
    at: int, begin: int, repeats: int
) -> None:
    """Up to 2.1 such a leader tells its high watermark, which may be lower than what consumers have read."""
    assert translated(identity(), facts({S0: at}, {S0: at}, 1450), ONE) == {T0: Safe(begin, repeats)}


def test_a_source_that_is_told_to_be_empty_and_was_copied_is_not() -> None:
    row = translated(keyed(), facts({S1: 100}, {S0: 0, S1: 900}), TOPICS)[T0]
    assert isinstance(row, Problem)
    assert "the group has no position of source partition t/0" in row.text


def test_the_source_is_asked_where_its_leaders_own_logs_end() -> None:
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, {"/consumers/g/offsets/t/0": b"400"}, ends={("t", 0): 450}) as f:
        f.kafka.logs["t", 0].high_watermark = 400
        source = Source(ClusterOptions(None, "0.8.2"), "zookeeper")
        assert _read(f.world, "g", offsets=identity(), source=source, force=False) == ({S0: 400}, {S0: (0, 450)})
