"""`zkconsumer consume --partition` against the fake cluster: leaders that move or die, and what is not there."""

from __future__ import annotations

import io
import threading

import pytest

from kafkawire.cluster.metadata import Unreachable
from localkafka.waiting import wait_until
from tests.fakes.broker import FakeCluster, entry
from zkconsumer.commands.messageformat import MessageFormat
from zkconsumer.commands.partition import LARGEST, SMALLEST, NoSuchPartition, OnePartition
from zkconsumer.errors import ConsumerError, DamagedMessage


def fill(cluster: FakeCluster, first: int, last: int) -> None:
    for n in range(first, last):
        cluster.append("t", 0, entry(b"%d" % n))


def read(cluster: FakeCluster, start: int | str, most: int | None, timeout_ms: int | None = 200, p: int = 0) -> bytes:
    out = io.BytesIO()
    OnePartition(cluster.bootstrap, "t", p, start=start, release="0.8.2", timeout_ms=2000).run(
        MessageFormat(), most, timeout_ms, out
    )
    return out.getvalue()


@pytest.mark.parametrize(("start", "lines"), [(SMALLEST, b"0\n1\n2\n"), (1, b"1\n2\n"), (3, b""), (LARGEST, b"")])
def test_it_begins_where_it_was_told_and_ends_when_nothing_comes(start: int | str, lines: bytes):
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        fill(cluster, 0, 3)
        assert read(cluster, start, None) == lines


def test_so_many_messages_and_no_more():
    with FakeCluster({"t": 1}) as cluster:
        fill(cluster, 0, 3)
        assert read(cluster, 0, 2, None) == b"0\n1\n"


def test_a_leader_that_moves_costs_no_message_and_repeats_none(capsys: pytest.CaptureFixture[str]):
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        fill(cluster, 0, 2)
        out = io.BytesIO()
        reader = OnePartition(cluster.bootstrap, "t", 0, start=SMALLEST, release="0.8.2", timeout_ms=2000)
        raised: list[BaseException] = []

        def run() -> None:
            try:
                reader.print_all(MessageFormat(), 4, None, out)  # run() takes signals, which belong to the main thread
            except BaseException as e:
                raised.append(e)
            finally:
                reader.close()

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: out.getvalue() == b"0\n1\n", 5, "the first two")
        cluster.move("t", 0, 2)
        fill(cluster, 2, 4)
        thread.join(10)
        assert not thread.is_alive()
        assert (out.getvalue(), raised) == (b"0\n1\n2\n3\n", [])
        assert "looking for the leader again" in capsys.readouterr().err


def test_an_offset_outside_the_log_is_refused_with_what_it_holds():
    with FakeCluster({"t": 1}) as cluster:
        fill(cluster, 0, 3)
        with pytest.raises(ConsumerError, match=r"t/0 at 9: its log holds 0 to 3; give --offset in between"):
            read(cluster, 9, None)
        del cluster.logs["t", 0].entries[:2]
        with pytest.raises(ConsumerError, match=r"t/0 at 1: its log holds 2 to 3; "):
            read(cluster, 1, None)


def test_a_damaged_message_is_named_with_its_partition_behind_all_that_was_before_it():
    damaged = entry(b"1")
    out = io.BytesIO()
    with FakeCluster({"t": 1}) as cluster:
        fill(cluster, 0, 1)
        cluster.append("t", 0, damaged[:-1] + b"x")
        reader = OnePartition(cluster.bootstrap, "t", 0, start=0, release="0.8.2", timeout_ms=2000)
        with pytest.raises(DamagedMessage, match=r"^t/0 at 1: the message is damaged: .*; give --offset behind it"):
            reader.run(MessageFormat(), None, 200, out)
    assert out.getvalue() == b"0\n"


def test_what_is_not_there_is_said_and_not_created():
    with FakeCluster({"t": 1}) as cluster:
        with pytest.raises(NoSuchPartition, match="t/1: the topic has 1 partition, "):
            read(cluster, 0, None, p=1)
        absent = OnePartition(cluster.bootstrap, "absent", 0, start=0, release="0.8.2", timeout_ms=2000)
        for _ in range(2):
            with pytest.raises(NoSuchPartition, match="topic absent does not exist"):
                absent.run(MessageFormat(), None, 200, io.BytesIO())


def test_a_cluster_out_of_reach_at_the_start_is_said_at_once():
    reader = OnePartition([("127.0.0.1", 9)], "t", 0, start=0, release="0.8.2", timeout_ms=2000)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        reader.run(MessageFormat(), None, 200, io.BytesIO())
