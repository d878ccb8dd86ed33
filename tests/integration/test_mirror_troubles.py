"""The mirror on real clusters when something is wrong: one sentence, and the neighbours flow on."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkawire.cluster.addresses import parse_addresses
from kafkawire.model import TopicPartition
from localkafka import ports, tools
from localkafka.client import ClusterClient, log_end_offsets, started_client
from localkafka.cluster import Cluster
from localkafka.load import GZIP, PLAIN, Mixture
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, PLAIN_ONLY, Mirror, compared, filled, totals, values
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real


LARGE = Mixture(keyed=0.0, codecs=(PLAIN,), value_bytes=200_000)


def arrivals(mirror: Mirror, topic: str) -> dict[int, int]:
    return {int(str(tp.partition)): end for tp, end in log_end_offsets(mirror.target, [topic]).items()}


def test_a_message_larger_than_the_target_takes_parks_its_partition_and_no_other(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target = own_cluster(brokers=1, settings={"message.max.bytes": "100000"})
    load = filled(source, {topic: 2}, 400, PLAIN_ONLY)
    options = {"target.message.max.bytes": 100000}
    with Mirror(tmp_path, source, target, unique.group(), topic, target_options=options) as mirror:
        mirror.wait_arrived(topic, 400)
        load.produce(topic, 1, 1, LARGE)
        load.produce(topic, 2, 400, PLAIN_ONLY)  # 200 behind the large one, 200 beside it
        mirror.wait_said(f"parked 1: {topic}/0")
        assert arrivals(mirror, topic) == {0: 200, 1: 400}
        for end in (600, 800):
            began = time.monotonic()
            load.produce(topic, 2, 400, PLAIN_ONLY)
            wait_until(lambda end=end: arrivals(mirror, topic)[1] >= end, 10, "the neighbour")  # type: ignore[misc]
            assert time.monotonic() - began < 2
        mirror.wait_said(f"{topic}/0")
        assert mirror.stop()[0] == 0
        assert mirror.committed([topic]) == {TopicPartition(topic, 0): 200, TopicPartition(topic, 1): 800}
    assert "a message of 200026 bytes (source offset 200) is larger than the target takes" in mirror.said()
    assert arrivals(mirror, topic) == {0: 200, 1: 800}


def test_a_parked_partition_flows_on_within_one_retry_after_its_cause_is_mended(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target.create_topic(topic, 2, config={"max.message.bytes": "100000"})
    load = filled(source, {topic: 2}, 400, Mixture(keyed=0.5, codecs=(GZIP,)))
    options = {"target.message.max.bytes": 1000012}
    retry_ms = 3000
    with Mirror(
        tmp_path, source, target, unique.group(), topic, {"parked.retry.ms": retry_ms}, target_options=options
    ) as mirror:
        mirror.wait_arrived(topic, 400)
        load.produce(topic, 1, 1, LARGE)
        load.produce(topic, 2, 400, Mixture(keyed=0.5, codecs=(GZIP,)))  # half of them behind the large one
        mirror.wait_said(f"parked 1: {topic}/0")
        wait_until(lambda: arrivals(mirror, topic) == {0: 200, 1: 400}, 10, mirror.said)
        time.sleep(2.5 * retry_ms / 1000)  # at least two tries that must change nothing
        assert arrivals(mirror, topic) == {0: 200, 1: 400}
        tools.topic_command(target, "--alter", "--topic", topic, "--config", "max.message.bytes=1000012")
        wait_until(lambda: arrivals(mirror, topic) == {0: 401, 1: 400}, retry_ms / 1000 + 3, mirror.said)
        mirror.wait_all_committed([topic])
        mirror.wait_said(f"{topic}/0 flows again; it was parked at 200")
        load.produce(topic, 2, 100, MIXED)
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 2))
    assert (found["source"], found["lost"], found["duplicates"], found["phantoms"]) == (901, 0, 0, 0)
    said = mirror.said()
    assert said.count('msg="source dc1: parked: ') == 1  # neither each try nor each look is a line of its own
    assert said.count(" flows again") == 1


def test_partitions_that_the_target_gets_later_are_used_without_a_restart(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target.create_topic(topic, 1)
    filled(source, {topic: 2}, 400)
    settings = {"partitioning": "identity", "parked.retry.ms": 1000}
    with Mirror(tmp_path, source, target, unique.group(), topic, settings) as mirror:
        mirror.wait_said(
            f"parked 1: {topic}/1: the target topic has 1 partition and mirror.partitioning is identity: "
            "add partitions to it (by hand, or mirror.target.grow.partitions: true), or set mirror.partitioning to "
            "auto or key"
        )
        wait_until(lambda: arrivals(mirror, topic) == {0: 200}, 10, mirror.said)
        tools.topic_command(target, "--alter", "--topic", topic, "--partitions", "2")
        mirror.wait_all_committed([topic], 20)
        mirror.wait_said(f"{topic}/1 flows again")
        assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 2))
    assert (found["source"], found["lost"], found["duplicates"]) == (400, 0, 0)


@pytest.mark.parametrize(("codec", "handler"), [(PLAIN, ""), (GZIP, "tests.integration.hooks:same")])
def test_a_corrupt_message_parks_its_partition_exactly_before_itself(
    own_cluster: Callable[..., Cluster],
    target: ClusterClient,
    unique: Unique,
    tmp_path: Path,
    codec: int,
    handler: str,
) -> None:
    topic, neighbour = unique.topic("bad"), unique.topic("good")
    source = own_cluster(brokers=1, settings={"log.segment.bytes": "65536"})
    load = filled(source, {topic: 1, neighbour: 1}, 200, PLAIN_ONLY)
    load.produce(topic, 1, 100, Mixture(keyed=0.5, codecs=(codec,)), batch=50)
    load.produce(topic, 1, 1000, PLAIN_ONLY)  # closes the segment
    bad = source.node(0).flip_byte(topic, 0, offset=230, at=40)
    root = str(Path(__file__).parents[2])
    mirror = Mirror(
        tmp_path,
        source,
        target,
        unique.group(),
        f"{topic}|{neighbour}",
        {"message.handler": handler},
        env={"PYTHONPATH": root},
    )
    with mirror:
        mirror.wait_said(f"parked 1: {topic}/0", 30)
        first = 230 if codec == PLAIN else bad.offset - 49  # of a wrapper: its first message
        wait_until(lambda: mirror.committed([topic]).get(TopicPartition(topic, 0)) == first, 10, mirror.said)
        filled(source, {}, 0, seed=2).produce(neighbour, 1, 100, PLAIN_ONLY)  # the broker was restarted meanwhile
        mirror.wait_arrived(neighbour, 300, 5)
        assert mirror.stop()[0] == 0
    assert [(v or "").split()[1] for v in values(target, topic, 0)] == [f"#{n}" for n in range(first)]


def with_handler(
    folder: Path, source: ClusterClient, target: ClusterClient, group: str, topic: str, name: str, **more: object
) -> Mirror:
    """A mirror with a message.handler of tests.integration.hooks."""
    settings = {"message.handler": f"tests.integration.hooks:{name}", **more}
    return Mirror(folder, source, target, group, topic, settings, env={"PYTHONPATH": str(Path(__file__).parents[2])})


def test_a_handler_that_forgets_its_return_parks_the_partition_and_drops_nothing(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 200)
    with with_handler(tmp_path, source, target, unique.group(), topic, "forgets") as mirror:
        mirror.wait_said(
            f"parked 1: {topic}/0 at 0: message.handler tests.integration.hooks:forgets gave back None: return the "
            "message, (key, value), (topic, key, value), a Send or a list of these; to drop the message return DROP of "
            "mirrormaker.handler, or an empty list"
        )
        assert mirror.stop()[0] == 0
        assert mirror.committed([topic]) == {TopicPartition(topic, 0): 0}
        assert mirror.arrived(topic) == 0


def test_what_a_handler_drops_is_committed_and_counted_and_is_no_rate(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, kept = unique.topic("dropped"), unique.topic("kept")
    filled(source, {topic: 2}, 2000)
    with with_handler(tmp_path, source, target, unique.group(), f"{topic}|{kept}", "drops") as mirror:
        mirror.wait_all_committed([topic])
        mirror.wait_said("; dropped 2,000 (message.handler)")
        rates = {
            line.partition(" msg/s")[0].rpartition('"')[2] for line in mirror.said().splitlines() if " msg/s" in line
        }
        assert rates - {"mirroring: 0"} == {"0"}  # the target acknowledged nothing
        assert mirror.said().count(f"topic {topic}: message.handler tests.integration.hooks:drops dropped ") == 1
        filled(source, {kept: 1}, 500)
        mirror.wait_arrived(kept, 500)
        assert mirror.stop()[0] == 0
        assert mirror.arrived(topic) == 0
    assert f"topic {topic}: message.handler dropped 2,000 messages since the start" in mirror.said()
    assert f"topic {kept}: message.handler dropped" not in mirror.said()


def test_a_handler_that_raises_shows_its_traceback_once_however_often_its_partition_is_tried(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 10)
    with with_handler(tmp_path, source, target, unique.group(), topic, "raises", **{"parked.retry.ms": 300}) as mirror:
        mirror.wait_for(lambda: mirror.said().count("raises is called") >= 3, "three tries")
        assert f"{topic}/0 at 0: message.handler tests.integration.hooks:raises raised KeyError: " in mirror.said()
        assert mirror.said().count("Traceback (most recent call last)") == 1
        assert ", in raises" in mirror.said()
        assert mirror.stop()[0] == 0


def test_a_missing_target_topic_is_left_to_auto_creation_where_zookeeper_is_not_given(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 3}, 600)
    options = {"target.zookeeper.connect": None}
    with Mirror(tmp_path, source, target, unique.group(), topic, target_options=options) as mirror:
        mirror.wait_all_committed([topic])
        sentence = f"target topic {topic} does not exist and target.zookeeper.connect is not given"
        assert mirror.said().count(sentence) == 1
        assert mirror.arrived(topic) == 600


def test_a_target_topic_that_nobody_creates_waits_beside_the_others_and_flows_once_it_is_there(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    missing, there = unique.topic("missing"), unique.topic("there")
    target = own_cluster(brokers=1, settings={"auto.create.topics.enable": "false"})
    target.create_topic(there, 1)
    filled(source, {missing: 2, there: 1}, 300)
    options = {"target.zookeeper.connect": None}
    with Mirror(tmp_path, source, target, unique.group(), f"{missing}|{there}", target_options=options) as mirror:
        mirror.wait_arrived(there, 300)
        mirror.wait_said(
            f"waiting 1: {missing}: target topic {missing} does not exist and the target does not create it "
            "(UnknownTopicOrPartition): create it, or give target.zookeeper.connect"
        )
        target.create_topic(missing, 2)
        mirror.wait_arrived(missing, 300, 30)
        assert mirror.stop()[0] == 0


def test_a_missing_target_topic_is_created_with_the_source_s_partitions_before_anybody_names_it(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target = own_cluster(brokers=2, settings={"num.partitions": "1"})
    source.create_topic(topic, 5, 2)
    filled(source, {unique.topic("other"): 1}, 10)
    load = filled(source, {f"{topic}-b": 3}, 30)
    load.produce(topic, 5, 50, MIXED, batch=10)
    with Mirror(tmp_path, source, target, unique.group(), f"{topic}.*") as mirror:
        mirror.wait_all_committed([topic, f"{topic}-b"])
        assert "create it there" not in mirror.said()  # leaders of a new topic are late, and that is no warning
        assert not [line for line in mirror.said().splitlines() if "level=warning" in line and "waits" in line]
    view = target.registry().view(topic)
    assert {len(partition.replicas) for partition in view.topics[topic].values()} == {2}
    assert len(view.partitions(topic)) == 5
    assert len(target.registry().view(f"{topic}-b").partitions(f"{topic}-b")) == 3


def test_new_partitions_of_a_source_topic_lose_nothing(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 1}, 100)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        tools.topic_command(source, "--alter", "--topic", topic, "--partitions", "3")
        source.wait_in_sync(topic)
        load.produce(topic, 3, 900, MIXED)
        mirror.wait_all_committed([topic], 20)
        mirror.wait_said("partition chosen by key, as the target has 1 partition, the source 3")
        assert mirror.arrived(topic) == 1000


# ---- start -----------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    port = ports.reserve()
    yield f"127.0.0.1:{port.number}"
    port.release()


def refused(mirror: Mirror, code: int, sentence: str, check_code: int | None = None) -> None:
    """run ends with the code and the sentence as its last one; check --online says the same, with a code of its own
    where a start waits for what a look cannot."""
    mirror.start()
    assert mirror.exit_code(20) == code, mirror.said()
    [line] = [line for line in mirror.said().splitlines() if "level=critical" in line]
    assert sentence in line
    checked = subprocess.run([COMMAND, "check", "--online", mirror.file], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (code if check_code is None else check_code, "")
    assert checked.stderr.splitlines()[-1].startswith("error: ")


def test_a_source_out_of_reach_ends_the_start_with_69(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, nobody: str
) -> None:
    mirror = Mirror(tmp_path, source, target, unique.group(), "a", {"start.timeout.ms": 1000})
    mirror.file.write_text(mirror.file.read_text().replace(source.zookeeper, f"{nobody}/a", 1))
    refused(mirror, 69, f"source dc1 out of reach for 1 s: ZooKeeper at {nobody} does not answer within")


def test_a_target_out_of_reach_ends_the_start_with_69(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, nobody: str
) -> None:
    options = {"metadata.broker.list": nobody}
    mirror = Mirror(tmp_path, source, target, unique.group(), "a", {"start.timeout.ms": 1000}, options)
    refused(mirror, 69, "target out of reach for 1 s: no broker of the cluster answers: ")
    assert nobody in mirror.said()


def test_a_missing_chroot_is_a_wrong_configuration(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source, target, unique.group(), "a")
    hosts = source.zookeeper.partition("/")[0]
    mirror.file.write_text(mirror.file.read_text().replace(source.zookeeper, f"{hosts}/nowhere", 1))
    sentence = f"source dc1: chroot /nowhere does not exist on {hosts}; create it or correct zookeeper.connect"
    refused(mirror, 78, sentence)


def test_a_source_chroot_without_brokers_is_no_healthy_empty_cluster(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source, target, unique.group(), "a", {"start.timeout.ms": 1000})
    hosts = source.zookeeper.partition("/")[0]
    mirror.file.write_text(mirror.file.read_text().replace(source.zookeeper, hosts, 1))
    sentence = f"source dc1: no brokers are registered under {hosts}: is the chroot missing in zookeeper.connect?"
    refused(mirror, 69, sentence, check_code=78)
    assert "mirroring:" not in mirror.said()


def test_a_target_zookeeper_of_another_cluster_is_refused(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    hosts = target.zookeeper.partition("/")[0]
    target.create_topic(unique.topic(), 1)  # brokers of 0.8 that never had a topic do not know of each other
    named = ", ".join(f"{n} at {address}" for n, address in enumerate(target.brokers.split(",")))
    zk = started_client(hosts)  # registers a cluster with the same broker ids, at other addresses
    for n in (0, 1):
        node = {"version": 1, "host": "kafka.elsewhere", "port": 9092 + n, "jmx_port": -1, "timestamp": "1"}
        zk.create(f"{unique.chroot}/brokers/ids/{n}", json.dumps(node).encode(), makepath=True)
    zk.stop()
    zk.close()
    elsewhere = "brokers 0 at kafka.elsewhere:9092, 1 at kafka.elsewhere:9093"
    for wrong, brokers in ((hosts, "no brokers"), (hosts + unique.chroot, elsewhere)):
        folder = tmp_path / brokers.split()[0]
        folder.mkdir()
        options = {"target.zookeeper.connect": wrong}
        mirror = Mirror(folder, source, target, unique.group(), "a", {"start.timeout.ms": 1000}, options)
        sentence = f"target.zookeeper.connect {wrong} is another cluster than metadata.broker.list ({brokers} vs "
        refused(mirror, 78, f"{sentence}brokers {named}): is its chroot right?")


def test_a_whitelist_that_no_topic_matches_is_a_warning(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    sentence = f"source dc1: no topic matches the whitelist '{topic}' now; is whitelist right?"
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_said(sentence)
        mirror.wait_said("mirroring: ")
        checked = subprocess.run(
            [COMMAND, "check", "--online", mirror.file], capture_output=True, text=True, timeout=60
        )
        assert checked.returncode == 0
        told = [line for line in checked.stderr.splitlines() if "broker " not in line]
        assert told == [f"warning: {sentence}", f"ok: 1 source, topics {topic}; every cluster answered"]
        filled(source, {topic: 1}, 100)  # a warning, not a refusal: it is mirrored once it is there
        mirror.wait_arrived(topic, 100)


def test_a_mirror_into_its_own_source_is_refused(source: ClusterClient, unique: Unique, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, source, source, unique.group(), "a", target_options={"target.zookeeper.connect": None})
    refused(mirror, 78, "source dc1 and the target are one cluster (broker ")


def test_a_configuration_read_again_moves_offsets_and_names_what_it_leaves(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    load = filled(source, {topic: 1}, 100)
    with Mirror(tmp_path, source, target, group, topic) as mirror:
        mirror.wait_arrived(topic, 100)
        mirror.signal(signal.SIGALRM)
        mirror.wait_said("SIGALRM changes nothing")
        text = mirror.file.read_text()
        mirror.file.write_text(text.replace("name: dc1", "name: dc1\n  offsets.storage: kafka\n  fetch.min.bytes: 2"))
        mirror.signal(signal.SIGHUP)
        mirror.wait_said("source dc1: option 'fetch.min.bytes' has changed; it takes effect after a restart only")
        mirror.wait_said(f"mode: offsets of group {group}: zookeeper -> dual")
        load.produce(topic, 1, 100, MIXED)
        mirror.wait_arrived(topic, 200)
        mirror.wait_all_committed([topic])
        host, port = parse_addresses(source.brokers)[0]
        with SimpleConsumer(host, port) as simple:
            assert simple.fetch_offsets(group, [TopicPartition(topic, 0)], "kafka") == {TopicPartition(topic, 0): 200}
        mirror.file.write_text("sources: []")
        mirror.signal(signal.SIGHUP)
        mirror.wait_said("the configuration is left as it is: ")
        assert mirror.stop()[0] == 0


def test_systemd_hears_of_ready_after_the_first_assignment_and_of_stopping(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    filled(source, {topic: 2}, 100)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}
        with Mirror(tmp_path, source, target, group, topic, env=env) as mirror:
            ready = manager.recv(4096).decode()
            assert ready.startswith("READY=1\nSTATUS=")
            assert re.search(rf", 2 partitions(; waiting 1: {topic}: its topic in the target [^;|]*)?$", ready)
            assert len(source.registry().zk.get_children(f"/consumers/{group}/owners/{topic}")) == 2
            heard = [manager.recv(4096).decode() for _ in range(6)]
            assert "WATCHDOG=1" in heard
            assert any(line.startswith("STATUS=") for line in heard)
            assert mirror.stop()[0] == 0
            manager.setblocking(False)
            rest = []
            try:
                while True:
                    rest.append(manager.recv(4096).decode())
            except BlockingIOError:
                pass
            assert f"STOPPING=1\nSTATUS={mirror.file.stem}: draining\nEXTEND_TIMEOUT_USEC=10000000" in rest


def test_check_online_shows_what_a_start_would_find_and_creates_nothing(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    here, both = unique.topic("a-here"), unique.topic("b-both")
    filled(source, {here: 3, both: 2}, 10)
    target.create_topic(both, 1)
    mirror = Mirror(tmp_path, source, target, unique.group(), f".*{unique.tag}")
    checked = subprocess.run([COMMAND, "check", "--online", mirror.file], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0
    *told, last = checked.stderr.splitlines()
    assert last == f"ok: 1 source, topics .*{unique.tag}; every cluster answered"
    releases = [line.partition(": broker ")[0] for line in told]
    assert (releases, checked.stderr.count("used as 0.8.2\n")) == (["source dc1", "target"], 2)
    assert [" ".join(line.split()) for line in checked.stdout.splitlines()[1:]] == [
        f"dc1 {here} 3 {here} missing, created with 3 pass-through: same format, partition kept",
        f"dc1 {both} 2 {both} 1 re-encode: partition chosen by key, as the target has 1 partition, the source 2",
    ]
    assert log_end_offsets(target, [here]) == {}
