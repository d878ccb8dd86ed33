"""Rows of the fault matrix about the source: its brokers stop, die, lose their lead, and its messages are broken."""

from __future__ import annotations

import os
import random
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafkawire.compression import opened
from kafkawire.errors import RemoteError
from kafkawire.formats.v01.messages import LOG_OVERHEAD, LOWEST, message_set
from kafkawire.formats.v01.scan import CODEC
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from tests.conftest import Unique
from tests.faults.harness.damage import ATTRIBUTES_AT, CRC_AT, CRC_FROM, KEY_AT, MAGIC_AT, fuzzed_log
from tests.faults.harness.leaders import leading, led_by, lines_of, move_leaders, wait_in_sync, wait_moved
from tests.faults.harness.row import SEEDS, Accept, Fault, Run, row
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import produce, simple

pytestmark = [pytest.mark.real, pytest.mark.faults]

BOUNCES = int(os.environ.get("FAULT_BOUNCES", "3"))  # kafkatest's number; the row says 5
DOWN_S = float(os.environ.get("FAULT_DOWN_S", "60"))


def wait_fed(run: Run, fault: Fault) -> float:
    """Wait until every affected partition has acknowledged something new: before, there is nothing to mirror, and what
    is left of its replicas may take ten seconds to agree.  Returns the time.monotonic() at which that was seen."""
    before = {tp: run.traffic.acknowledged(tp) for tp in fault.affected}
    run.wait_for(lambda: all(run.traffic.acknowledged(tp) > had for tp, had in before.items()), "new messages")
    return time.monotonic()


@row("F16", "SIGTERM of source brokers, one after the other", Accept(recovery_s=5, rebalances=0))
def test_f16_a_source_broker_is_stopped(run: Run) -> None:
    side = run.sites.source
    for _ in range(BOUNCES):
        node = leading(side, run)
        with run.fault(affected=led_by(side, node.id, run.tps)) as fault:
            node.stop()
            wait_moved(side, node.id, fault.affected)
            fault.recovers_from = wait_fed(run, fault)
            run.wait_flowing()
        node.restart()
        wait_in_sync(run, side)
        run.wait_caught_up()


@row("F17", "kill -9 of source leaders, 15 s down", Accept(recovery_s=10, rebalances=0))
def test_f17_source_leaders_are_killed(run: Run) -> None:
    side = run.sites.source
    for _ in range(BOUNCES):
        node = leading(side, run)
        with run.fault(affected=led_by(side, node.id, run.tps)) as fault:
            node.kill()
            wait_moved(side, node.id, fault.affected)
            fault.recovers_from = wait_fed(run, fault)
            run.wait_flowing()
            run.pass_time(max(0.0, 15 - (time.monotonic() - fault.since)))
        node.restart()
        wait_in_sync(run, side)
        run.wait_caught_up()


@row(
    "F18", "the only replica of source partitions is down for a minute", Accept(recovery_s=5, rebalances=0, pause_s=2),
    replication=1, topic_config={"min.insync.replicas": 1},
)  # fmt: skip
def test_f18_the_only_replica_of_source_partitions_is_down(run: Run) -> None:
    side = run.sites.source
    node = leading(side, run)
    with run.fault(affected=led_by(side, node.id, run.tps)) as fault:
        assert len(fault.affected) < len(run.tps)
        node.stop()
        run.pass_time(DOWN_S)
        node.restart()
        fault.recovers_from = wait_fed(run, fault)
        run.wait_flowing()


@row(
    "F21a", "leaders of the source are moved by reassignment and by preferred election",
    Accept(recovery_s=2, rebalances=0), replication=2, topic_config={"min.insync.replicas": 1},
)  # fmt: skip
def test_f21_source_leaders_are_moved(run: Run) -> None:
    side = run.sites.source
    marks = {daemon.name: len(daemon.said()) for daemon in run.daemons}
    for _ in range(BOUNCES):
        for stays in (True, False):
            with run.fault() as fault:
                move_leaders(side, run.tps, stays=stays)
                wait_moved(side, None, run.tps)
                fault.recovers_from = wait_fed(run, fault)
                run.wait_flowing()
            wait_in_sync(run, side)
    run.figure("lines of the log a partition and move", lines_of(run, marks) / 2 / BOUNCES, 5)


FUZZED = int(os.environ.get("FAULT_FUZZED", "10000"))  # entries of the source's log
SPREAD = 20  # partitions: what is damaged is fetched again and again before it is left out


def readable(cluster: ClusterClient, tp: TopicPartition) -> set[bytes | None]:
    """Values of all messages of a log, each entry read for itself.

    What cannot be read may only be a plain message whose checksum is right and whose sizes are wrong, or a wrapper
    with a right checksum and damage inside: they pass through by their checksums, as they stand at the source, and
    no broker of 0.8 looks further.  Anything else that nobody can read fails the test.
    """
    found: set[bytes | None] = set()
    with simple(cluster, tp) as consumer:
        at, end = consumer.earliest(tp), consumer.latest(tp)
        while at < end:
            fetched = consumer.fetch(tp.topic, int(str(tp.partition)), at, 4 << 20)
            for number, entry in enumerate(entries(bytes(fetched.buffer))):
                try:
                    found |= values(entry)
                except RemoteError as e:
                    right = zlib.crc32(entry[CRC_FROM:]) == int.from_bytes(entry[CRC_AT:CRC_FROM], "big")
                    plain = entry[MAGIC_AT] == 0 and entry[ATTRIBUTES_AT] & CODEC == 0  # of v0; other bits mean nothing
                    inside = "inside the wrapper" in str(e)
                    if not right or not (plain or inside):
                        raise AssertionError(f"{tp}, entry {number} from {at} on") from e
                    if inside:
                        found |= whole_inside(entry)
            at = fetched.resume_at
    return found


def entries(data: bytes) -> Iterator[bytes]:
    """The entries of a message set, each as long as it says."""
    begin = 0
    while len(data) - begin >= LOG_OVERHEAD:
        size = int.from_bytes(data[begin + 8 : begin + LOG_OVERHEAD], "big", signed=True)
        if size < 0:
            return
        yield data[begin : begin + LOG_OVERHEAD + size]
        begin += LOG_OVERHEAD + size


def values(entry: bytes) -> set[bytes | None]:
    """Raises RemoteError."""
    return {one.value for one in message_set("t", 0, LOWEST, memoryview(entry), -1)[0].messages()}


def whole_inside(wrapper: bytes) -> set[bytes | None]:
    """Values of the messages of a damaged wrapper that are whole.

    A broker of 0.8 opens all compressed entries of a produce request and packs what is in them into one, without a look
    at the checksums inside: a damaged message of the source gets whole neighbours that way.
    """
    key = max(0, int.from_bytes(wrapper[KEY_AT : KEY_AT + 4], "big", signed=True))
    packed = wrapper[KEY_AT + 4 + key + 4 :]
    found: set[bytes | None] = set()
    for entry in entries(bytes(opened(wrapper[ATTRIBUTES_AT] & CODEC, packed, 1 << 20))):
        with suppress(RemoteError):
            found |= values(entry)
    return found


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_f30_the_daemon_survives_fuzzed_batches(
    own_cluster: Callable[..., Cluster], target: ClusterClient, unique: Unique, tmp_path: Path, seed: int
) -> None:
    """Entries of the source's log are edited at random behind their checksum, which is right again: other formats and
    codecs, broken streams, negative sizes.  The daemon leaves out what nobody can read, but for plain messages whose
    sizes alone are wrong (see readable), and nothing else."""
    topic = unique.topic()
    source = own_cluster(brokers=1)
    source.create_topic(topic, SPREAD)
    for partition in range(SPREAD):
        produce(source, TopicPartition(topic, partition), [(b"k", b"gives the log its file")])
    rng, node, whole = random.Random(f"F30 {seed}"), source.node(0), {}
    node.stop()
    for partition in range(SPREAD):
        log = fuzzed_log(rng, FUZZED // SPREAD, b"p%d" % partition)
        [segment] = node.segments(topic, partition)
        segment.write_bytes(log.data)
        whole[partition] = log.whole
    node.restart()
    policies = {f"{kind}.policy": "skip" for kind in ("corrupt", "undecodable")}
    mirror = Mirror(tmp_path, source, target, unique.group(), topic, policies)
    mirror.file.write_text(
        mirror.file.read_text().replace("  name: dc1", "  name: dc1\n  refresh.leader.backoff.ms: 5")
    )
    with mirror:
        mirror.wait_all_committed([topic], 1200)  # each broken one is fetched several times
        assert mirror.stop()[0] == 0, mirror.said_last()
    lost = {
        partition: values - readable(target, TopicPartition(topic, partition)) for partition, values in whole.items()
    }
    assert {partition: sorted(values)[:5] for partition, values in lost.items() if values} == {}
    print(
        f"F30: {FUZZED} broken entries, {sum(map(len, whole.values()))} whole messages beside them, which all arrived"
    )
