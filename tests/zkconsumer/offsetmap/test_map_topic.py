"""An offset map as messages of a compacted topic: what compaction leaves is a map, and it stays bounded."""

from __future__ import annotations

import pytest

from kafkawire.model import BrokerPartition, Message, TopicPartition
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record, gathered
from zkconsumer.offsetmap.text import Header, MapDamaged, header_line
from zkconsumer.offsetmap.topic import ENTRIES, MAP_KEY, Slots, message_of, understood

S, T = TopicPartition("t", BrokerPartition(1, 0)), TopicPartition("t", 0)
HEAD = (MAP_KEY, header_line(Header("dc1", "g")).strip().encode())


def messages(pairs: list[tuple[bytes, bytes]]) -> list[Message]:
    return [Message("m", 0, n, key, value, None, None, None, n + 1) for n, (key, value) in enumerate(pairs)]


def compacted(pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    last = {key: n for n, (key, _) in enumerate(pairs)}
    return [pair for n, pair in enumerate(pairs) if last[pair[0]] == n]


def entries(first: int, last: int) -> list[Record]:
    return [Entry(S, T, n, n + 10, n + 10) for n in range(first, last)]


def test_what_compaction_leaves_is_the_newest_part_of_the_map() -> None:
    slots = Slots()
    records: list[Record] = [Begun(S, 0, 1, True), *entries(0, 3000), Reached(S, 100), Reached(S, 3000)]
    left = compacted([HEAD, *(message_of(record, slots) for record in records)])
    assert len(left) == ENTRIES + 3
    found = understood(messages(left), "m", Slots())
    assert found.header == Header("dc1", "g")
    [period] = found.map.periods[S]
    assert period.reached == 3000
    assert [entry.position for entry in period.entries[T]] == list(range(3000 - ENTRIES, 3000))


def test_after_a_restart_slots_go_on_behind_the_newest() -> None:
    slots = Slots()
    pairs = [HEAD, *(message_of(record, slots) for record in [Begun(S, 0, 1, True), *entries(0, 5)])]
    again = Slots()
    understood(messages(pairs), "m", again)
    more: list[Record] = [Begun(S, 5, 2, True), *entries(5, 8)]
    pairs += [message_of(record, again) for record in more]
    assert len({key for key, _ in pairs}) == len(pairs)
    found = understood(messages(compacted(pairs)), "m", Slots())
    assert found.map == gathered([Begun(S, 0, 1, True), *entries(0, 5), *more])


@pytest.mark.parametrize("pair", [(b"k", b"value"), (None, b"v"), (b'["at"]', None), (b"7", HEAD[1]), (b"[]", HEAD[1])])
def test_a_topic_of_something_else_is_told(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(MapDamaged, match=r"topic m at 1: .*it does not hold an offset map"):
        understood(messages([HEAD, pair]), "m", Slots())
