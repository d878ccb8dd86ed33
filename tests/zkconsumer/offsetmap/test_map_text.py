"""Lines of an offset map: what is written is read; a torn end is left out, and nonsense in the middle is told."""

from __future__ import annotations

import random

import pytest

from kafkawire.model import BrokerPartition, TopicPartition
from zkconsumer.offsetmap.file import understood
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record
from zkconsumer.offsetmap.text import Header, MapDamaged, header_line, line_of, read_line

HEAD = header_line(Header("dc1", "mirror"))


def some(rng: random.Random) -> Record:
    partition = rng.choice((0, 7, BrokerPartition(1, 0), BrokerPartition(3, 12)))
    source, target = TopicPartition(rng.choice(("orders", "a.b-c_d")), partition), TopicPartition("orders", 2)
    position, low = rng.randrange(2**62), rng.randrange(2**62)
    return rng.choice(
        (
            Begun(
                source,
                position,
                rng.randrange(2**42),
                rng.choice((True, False, None)),
                rng.choice((None, position)),
                rng.choice(("", "dc1.orders")),
            ),
            Entry(source, target, position, low, rng.choice((None, low, rng.randrange(2**62)))),
            Reached(source, position),
        )
    )


def test_a_record_is_read_as_it_was_written() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        record = some(rng)
        assert read_line(line_of(record)) == record


def test_wherever_the_file_ends_the_whole_lines_count() -> None:
    rng = random.Random(2)
    records = [some(rng) for _ in range(6)]
    lines = [HEAD, *map(line_of, records)]
    data = "".join(lines).encode()
    ends = [len("".join(lines[:n]).encode()) for n in range(len(lines) + 1)]
    for cut in range(len(data) + 1):
        for tail in (b"", b"\0\0\0", b"\0\0\n\0"):  # what a power cut may leave there
            found = understood(data[:cut] + tail, "m")
            whole = max(n for n, end in enumerate(ends) if end <= cut)
            assert (found.records, found.length) == (tuple(records[: max(0, whole - 1)]), ends[whole])


def test_nonsense_before_what_makes_sense_is_told_with_its_line() -> None:
    good = line_of(Reached(TopicPartition("t", 0), 5))
    with pytest.raises(MapDamaged, match=r"offset map m: line 2: .* is not a line of an offset map"):
        understood((HEAD + '["what"]\n' + good).encode(), "m")
    with pytest.raises(MapDamaged, match="it is an offset map of version 2, and this program reads version 1"):
        understood(b'["map",2,"a","b"]\n', "m")
    with pytest.raises(MapDamaged, match="it is not an offset map; name another file"):
        understood(b'{"format": "migration"}\n', "m")


@pytest.mark.parametrize(
    "line",
    ['["begin","t",0,1,"both",5]', '["at","t",0,"t",0,1,2]', '["reached","t",-1,2]', '["reached","t","x",2]', "7", ""],
)
def test_what_is_no_record_is_no_record(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_line(line)


def test_a_topic_of_the_same_name_has_the_line_that_it_always_had() -> None:
    """Releases that know no other names read maps without them, and refuse the others."""
    source = TopicPartition("orders", 1)
    assert line_of(Begun(source, 7, 5, True)) == '["begin","orders",1,7,"same",5]\n'
    assert line_of(Begun(source, 7, 5, True, 9)) == '["begin","orders",1,7,"same",5,9]\n'
    assert line_of(Begun(source, 7, 5, True, 9, "x")) == '["begin","orders",1,7,"same",5,9,"x"]\n'
    assert line_of(Begun(source, 7, 5, True, None, "x")) == '["begin","orders",1,7,"same",5,null,"x"]\n'
    with pytest.raises(ValueError, match="is not a line of an offset map"):
        read_line('["begin","orders",1,7,"same",5,"9","x"]')
