"""`make demo` as a user runs it, and its proof held to account: a message removed behind its back is seen."""

import os
import signal
import subprocess
import sys

import pytest

from kafkawire.formats.v01 import messages
from kafkawire.model import TopicPartition
from localkafka import demo
from localkafka.demo import Comparison, load_and_count
from localkafka.load import Load, Mixture

pytestmark = pytest.mark.real


def remove_last_message(story: demo.Demo, tp: TopicPartition) -> None:
    """Cut the last plain entry off the leader's newest segment of a target partition."""
    for segment in reversed(story.target.segments(tp)):
        data = segment.read_bytes()
        at, last, end = 0, None, messages.scan(memoryview(data), 0).end
        while at < end:
            last, at = at, at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if last is not None:
            segment.write_bytes(data[:last])
            return
    raise AssertionError(f"{tp} is empty")


def test_demo_proves_that_nothing_is_lost_and_sees_a_message_removed_behind_its_back(capsys):
    honest: list[list[Comparison]] = []

    def meddle(story: demo.Demo) -> None:
        honest.append(story.compare())
        remove_last_message(story, TopicPartition("orders", 1))

    code = demo.run(before_compare=meddle)

    assert demo.verdict(honest[0]) == 0
    assert sum(row.source for row in honest[0]) == 100_000
    assert {row.lost for row in honest[0]} == {0}
    assert code == 1
    printed = capsys.readouterr().out
    assert "lost 1" in printed
    assert "orders/1" in printed


def test_ctrl_c_in_the_middle_of_the_demo_leaves_no_process_behind():
    demo_process = subprocess.Popen(
        [sys.executable, "-m", "localkafka.demo"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert demo_process.stderr is not None
    said = ""
    while "mirror runs" not in said:
        line = demo_process.stderr.readline()
        assert line, said
        said += line
    children = [word for word in os.listdir("/proc") if word.isdigit() and descends(int(word), demo_process.pid)]
    assert len(children) > 6  # two ZooKeepers, four brokers, the mirror, and their keepers
    demo_process.send_signal(signal.SIGINT)
    _out, rest = demo_process.communicate(timeout=60)
    assert demo_process.returncode == 130, said + rest
    assert "stopped by ctrl-C" in rest
    assert [pid for pid in children if alive(int(pid))] == []


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                pid = int(stat.read().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            return False
        if pid == ancestor:
            return True
    return False


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_last_act_loads_each_message_once_and_counts_it(target, unique, tmp_path):
    topic = unique.topic()
    target.create_topic(topic, 2)
    load = Load(target.brokers, target.version)
    load.produce(topic, 2, 600, Mixture(0.5, (0, 1, 2)), batch=50)
    load.close()
    loaded = load_and_count(tmp_path, target.brokers, [topic])
    assert loaded.messages == {topic: 600}
    assert loaded.files >= 2
    assert {row["bytes"] for row in loaded.hours} == {600 * 100} or len(loaded.hours) == 2  # the hour may turn
    assert 200 < sum(row["keyed"] for row in loaded.hours) < 400
