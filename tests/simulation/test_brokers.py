"""What clients of simulated brokers see, release by release: real frames, real bytes."""

from __future__ import annotations

import json
import struct
import zlib
from random import Random
from typing import Any

import pytest

from kafkawire.protocol import apis
from kafkawire.protocol.adminapis import CREATE_PARTITIONS, CREATE_TOPICS, DESCRIBE_CONFIGS
from tests.fakes.entries import entry, gzipped, opened, walk
from tests.kafkawire.recordbatches import TRANSACTIONAL, batch, rows_of, sealed
from tests.simulation.asking import Client, T, fetch_fields, pass_until, plain, values_of
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.entries import stored
from tests.simulation.brokers.topics import DELETE_RECORDS
from tests.simulation.process import Timeline

RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "4.1.0")
BATCHES = RELEASES[3:]
NOW_MS = 1_700_000_000_000


def cluster_of(release: str, brokers: int = 1, partitions: int = 1, **settings: str) -> SimCluster:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SimCluster(
        Timeline(), Random(1), release, brokers, topics={"t": partitions}, settings=given, began_ms=NOW_MS
    )


def reads(release: str) -> int:
    return 4 if release.startswith("4") else 0


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_produced_is_fetched(release: str) -> None:
    client = Client(cluster_of(release))
    data, version = plain(release, 3)
    assert client.produce(data, version=version) == (0, 0)
    assert client.produce(data, acks=-1, version=version) == (0, 3)
    fetched = client.fetch(0, reads(release))
    assert (fetched["error"], fetched["high_watermark"]) == (0, 6)
    assert values_of(fetched["message_set"])[-1] == (5, b"value")
    assert client.fetch(6, reads(release))["error"] == 0
    assert client.fetch(7, reads(release))["error"] == 1


@pytest.mark.parametrize("release", RELEASES)
def test_frames_are_taken_in_any_cut_and_answered_one_after_the_other(release: str) -> None:
    cluster = cluster_of(release)
    client = Client(cluster, torn=3)
    data, version = plain(release, 1)
    waits = client.ask(apis.FETCH, reads(release), fetch_fields(reads(release), [(T, 0)], 500))
    other = client.send_set(data, 1, version)  # behind the long poll, which it would end
    cluster.timeline.run_until(cluster.timeline.now + 0.4)
    assert client.produced(other) is None
    assert pass_until(cluster, lambda: client.produced(other) == (0, 0), 5)
    assert client.came[waits][0] <= client.came[other][0]


def test_a_request_whose_client_is_gone_is_still_carried_out() -> None:
    cluster = cluster_of("2.8.2")
    client = Client(cluster)
    client.ask(apis.FETCH, 4, fetch_fields(4, [(("t", 0), 0)], 500))
    data, version = plain("2.8.2", 1)
    late = Client(cluster)
    late.send_set(data, 1, version)
    late.leave()
    client.leave()
    cluster.timeline.run_until(cluster.timeline.now + 2)
    assert cluster.log(T).end == 1
    assert not cluster.brokers[1].connections


# ---- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES[:3])
def test_to_0_10_a_set_with_a_wrapper_becomes_one_wrapper(release: str) -> None:
    cluster = cluster_of(release)
    client = Client(cluster)
    data = entry(b"a") + gzipped(entry(b"b"), entry(b"c", offset=1)) + gzipped(entry(b"d")) + entry(b"cut")[:20]
    assert client.produce(data) == (0, 0)
    fetched = bytes(client.fetch(0)["message_set"])
    assert [(offset, value) for offset, _, value in opened(fetched)] == list(enumerate([b"a", b"b", b"c", b"d"]))
    assert [(offset, count) for offset, count, _ in walk(fetched)] == [(3, 4)]


@pytest.mark.parametrize("release", RELEASES[3:7])
def test_from_0_11_on_a_set_becomes_one_batch_and_from_2_4_on_several_wrappers_are_refused(release: str) -> None:
    client = Client(cluster_of(release))
    several = gzipped(entry(b"a"), entry(b"b", offset=1)) + gzipped(entry(b"c"))
    refused = release in ("2.8.2", "3.9.1")
    assert client.produce(several) == ((87, -1) if refused else (0, 0))
    one = gzipped(entry(b"d"), entry(b"e", offset=1))
    assert client.produce(one) == (0, 0 if refused else 3)
    found = client.fetch(0, 4)["message_set"]
    assert [value for _, value in values_of(found)] == ([] if refused else [b"a", b"b", b"c"]) + [b"d", b"e"]
    assert bytes(found)[16] == 2


@pytest.mark.parametrize("release", RELEASES[3:7])
@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_is_fetched_in_older_formats(release: str, codec: int) -> None:
    client = Client(cluster_of(release))
    assert client.produce(batch(rows_of(0, 3), codec, producer=-1), version=3) == (0, 0)
    for version, magic in ((0, 0), (2, 1), (4, 2)):
        data = bytes(client.fetch(0, version)["message_set"])
        assert data[16] == magic
        assert values_of(data) == [(n, b"value") for n in range(3)]
    first = [offset for offset, _ in values_of(bytes(client.fetch(2, 2)["message_set"]))]
    assert first == ([2] if not codec else [0, 1, 2])


def test_0_10_keeps_times_and_forgets_them_for_old_fetches() -> None:
    client = Client(cluster_of("0.10.2.2"))
    body = struct.pack(">bbqi", 1, 0, NOW_MS, -1) + struct.pack(">i", 1) + b"a"
    message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    assert client.produce(message, version=2) == (0, 0)
    assert bytes(client.fetch(0, 2)["message_set"]) == message
    assert bytes(client.fetch(0, 1)["message_set"]) == entry(b"a")


@pytest.mark.parametrize("release", RELEASES)
def test_a_damaged_set_is_refused(release: str) -> None:
    client = Client(cluster_of(release))
    data, version = plain(release, 2)
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    assert client.produce(damaged, version=version) == (2, -1)
    assert client.produce(data, version=version) == (0, 0)


@pytest.mark.parametrize("release", RELEASES)
def test_a_set_that_is_too_large_is_refused(release: str) -> None:
    client = Client(cluster_of(release, message_max_bytes="500"))
    data, version = plain(release, 1, bytes(600))
    assert client.produce(data, version=version) == (10, -1)


@pytest.mark.parametrize(
    ("release", "answer"), [("0.11.0.3", None), ("2.0.0", None), ("2.1.0", (2, -1)), ("2.8.2", (87, -1))]
)
def test_two_batches_in_one_set(release: str, answer: Any) -> None:
    cluster = cluster_of(release)
    client = Client(cluster)
    data = batch(rows_of(0, 1), producer=-1)
    number = client.send_set(data + data, 1, 3)
    assert client.produced(number) == answer
    assert client.open == (answer is not None)
    assert cluster.log(T).end == 0


def test_append_time_is_the_brokers() -> None:
    cluster = cluster_of("2.8.2", log_message_timestamp_type="LogAppendTime")
    client = Client(cluster)
    assert client.produce(batch(rows_of(0, 2), producer=-1), version=3) == (0, 0)
    (stored,) = cluster.log(T).entries
    assert stored.timestamp == cluster.now_ms()


# ---- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", BATCHES)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_holds_readers_of_committed_messages_back_until_its_marker(release: str, commit: bool) -> None:
    cluster = cluster_of(release)
    client, broker = Client(cluster), cluster.brokers[1]
    assert client.produce(batch(rows_of(0, 1), producer=-1), version=3) == (0, 0)
    assert client.produce(batch(rows_of(0, 2), TRANSACTIONAL, producer=7), version=3, transactional_id="x") == (0, 1)
    assert client.produce(batch(rows_of(0, 1), producer=-1), version=3) == (0, 3)
    fetched = client.fetch(0, 4, isolation_level=1)
    assert (fetched["last_stable_offset"], fetched["high_watermark"], fetched["aborted"]) == (1, 4, [])
    assert [offset for offset, _ in values_of(fetched["message_set"])] == [0]
    assert len(values_of(client.fetch(0, 4)["message_set"])) == 4
    codes: list[int] = []
    broker.append_marker(T, 7, 1, 0, commit, codes.append)
    broker.append_marker(T, 7, 0, 0, commit, codes.append)
    assert codes == [0, 47]
    fetched = client.fetch(0, 4, isolation_level=1)
    assert (fetched["last_stable_offset"], len(values_of(fetched["message_set"]))) == (5, 4)
    assert fetched["aborted"] == ([] if commit else [{"producer_id": 7, "first_offset": 1}])
    assert client.fetch(4, 4, isolation_level=1)["aborted"] == (
        [] if commit else [{"producer_id": 7, "first_offset": 1}]
    )


# ---- retention and compaction ----------------------------------------------------------------------------------------


def test_retention_by_size_removes_whole_segments() -> None:
    settings = {"log_segment_bytes": "400", "log_retention_bytes": "900", "log_retention_ms": "-1"}
    cluster = cluster_of("2.8.2", log_retention_check_interval_ms="1000", **settings)
    client = Client(cluster)
    for _ in range(20):
        assert client.produce(batch(rows_of(0, 1), producer=-1), version=3)[0] == 0
    cluster.timeline.run_until(cluster.timeline.now + 40)
    log = cluster.log(T)
    assert 900 <= sum(segment.size for segment in log.segments) < 1300
    assert log.entries[0].base == log.start > 0
    assert client.end(time=-2) == (0, log.start)
    assert client.fetch(log.start - 1, 4)["error"] == 1


@pytest.mark.parametrize("release", ["0.8.2.2", "2.8.2"])
def test_all_of_a_log_may_go(release: str) -> None:
    cluster = cluster_of(release, log_retention_hours="1", log_retention_check_interval_ms="60000")
    client = Client(cluster)
    data, version = plain(release, 3)
    assert client.produce(data, version=version) == (0, 0)
    cluster.timeline.run_until(cluster.timeline.now + 2 * 3600)
    assert (client.end(time=-2), client.end()) == ((0, 3), (0, 3))
    assert client.fetch(0, reads(release))["error"] == 1
    assert client.produce(data, version=version) == (0, 3)


def test_compaction_leaves_holes_and_batches_without_records() -> None:
    cluster = cluster_of("2.8.2", log_cleanup_policy="compact", log_segment_bytes="250")
    client = Client(cluster)
    for producer in (7, 8, 9):  # k0 and k1 each time
        assert client.produce(batch(rows_of(0, 2), producer=producer), version=3)[0] == 0
    assert client.produce(batch(rows_of(0, 1), producer=10), version=3)[0] == 0  # k0
    for producer in (11, 12):
        other = rows_of(0, 1)[0]._replace(key=b"other%d" % producer)
        assert client.produce(batch([other], producer=producer), version=3)[0] == 0
    cluster.timeline.run_until(cluster.timeline.now + 60)
    log = cluster.log(T)
    kept = [(one.base, one.last, one.count) for one in log.entries]
    assert kept[:4] == [(0, 1, 0), (2, 3, 0), (4, 5, 1), (6, 6, 1)]
    found = []
    at = 0
    while at < log.hw:
        entries = stored(bytes(client.fetch(at, 4)["message_set"]))
        found += [offset for one in entries for offset, _ in values_of(one.data)]
        at = entries[-1].last + 1
    assert found == [5, 6, 7, 8]


@pytest.mark.parametrize("release", BATCHES)
def test_records_are_deleted_up_to_the_high_watermark(release: str) -> None:
    client = Client(cluster_of(release))
    assert client.produce(batch(rows_of(0, 10), producer=-1), version=3) == (0, 0)

    def delete(offset: int) -> Any:
        rows = [{"topic": "t", "partitions": [{"partition": 0, "offset": offset}]}]
        return client.call(DELETE_RECORDS, 0, {"topics": rows, "timeout_ms": 1000})["topics"][0]["partitions"][0]

    assert (delete(5)["error"], delete(5)["low_watermark"], delete(11)["error"]) == (0, 5, 1)
    assert client.end(time=-2) == (0, 5)
    assert delete(-1)["low_watermark"] == 10


# ---- quotas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["1.1.1", "2.8.2"])
def test_a_quota_holds_the_answer_back_to_1_1_and_the_next_request_later(release: str) -> None:
    cluster = cluster_of(release)
    cluster.quotas.produce = 1000.0
    client = Client(cluster)
    data, _ = plain(release, 100)
    began = cluster.timeline.now
    first, second = client.send_set(data, 1), client.send_set(data, 1)
    assert pass_until(cluster, lambda: client.produced(second) == (0, 100), 60)
    at_once = client.came[first][0] - began < 0.1
    assert at_once == (release == "2.8.2")
    assert client.came[second][0] - began > 1.0


def test_a_throttled_fetch_is_empty_and_loses_nothing_from_2_0_on() -> None:
    cluster = cluster_of("2.8.2")
    client = Client(cluster)
    assert client.produce(batch(rows_of(0, 50), producer=-1), version=3) == (0, 0)
    cluster.quotas.fetch = 100.0
    told = client.call(apis.FETCH, 4, fetch_fields(4, [(T, 0)]))
    assert told["topics"] == []
    assert told["throttle_time_ms"] > 0
    cluster.quotas.fetch = None
    assert len(values_of(client.fetch(0, 4)["message_set"])) == 50


# ---- topics ----------------------------------------------------------------------------------------------------------


def metadata_of(client: Client, topic: str, version: int = 0) -> Any:
    more = {"allow_auto_topic_creation": True} if version >= 4 else {}
    return client.call(apis.METADATA, version, {"topics": [topic], **more})["topics"][0]


@pytest.mark.parametrize("release", RELEASES)
def test_a_topic_that_is_asked_for_is_created(release: str) -> None:
    cluster = cluster_of(release, num_partitions="3")
    client = Client(cluster)
    first = metadata_of(client, "new", 4 if release.startswith("4") else 0)
    assert (first["error"], first["partitions"]) == (3 if release.startswith("4") else 5, [])
    assert pass_until(cluster, lambda: metadata_of(client, "new")["error"] == 0, 5)
    cluster.timeline.run_until(cluster.timeline.now + 0.1)
    assert [row["leader"] for row in metadata_of(client, "new")["partitions"]] == [1, 1, 1]


@pytest.mark.parametrize("release", RELEASES[2:])
def test_topics_are_made_grown_and_described_by_request(release: str) -> None:
    cluster = cluster_of(release, 2)
    client = Client(cluster)
    low = 2 if release.startswith("4") else 0
    row = {"topic": "made", "partitions": 2, "replication": 2, "assignments": [], "configs": []}
    row["configs"] = [{"name": "retention.ms", "value": "5000"}]
    fields = {"topics": [row], "timeout_ms": 1000} | ({"validate_only": False} if low else {})
    codes = [client.call(CREATE_TOPICS, low, fields)["topics"][0]["error"] for _ in range(2)]
    assert codes == [0, 36]
    assert pass_until(cluster, lambda: cluster.brokers[2].cache.has(("made", 1)), 1)
    if release not in ("0.10.2.2", "0.11.0.3"):
        grown = {
            "topics": [{"topic": "made", "count": 5, "assignments": None}],
            "timeout_ms": 1000,
            "validate_only": False,
        }
        assert client.call(CREATE_PARTITIONS, 0, grown)["topics"][0]["error"] == 0
        assert pass_until(cluster, lambda: cluster.brokers[2].cache.has(("made", 4)), 1)
    if release != "0.10.2.2":
        version = 1 if release.startswith("4") else 0
        asked = {"resources": [{"resource_type": 2, "name": "made", "configs": ["retention.ms"]}]}
        told = client.call(DESCRIBE_CONFIGS, version, asked | ({"include_synonyms": False} if version else {}))
        assert [one["value"] for one in told["resources"][0]["configs"]] == ["5000"]


@pytest.mark.parametrize(("release", "old_log"), [("1.1.1", True), ("2.8.2", False)])
def test_a_broker_that_missed_a_deletion_takes_its_old_log_for_the_new_topic_to_2_7(
    release: str, old_log: bool
) -> None:
    cluster = cluster_of(release)
    data, version = plain(release, 1)
    assert Client(cluster).produce(data, version=version) == (0, 0)
    cluster.kill(1)
    topic = cluster.controller.topics.pop("t")  # deleted, and the broker never hears of it
    cluster.start(1)
    assert cluster.create_topic(topic.name, 1) == 0
    assert pass_until(cluster, lambda: cluster.brokers[1].leads(T) is not None, 5)
    assert cluster.log(T).end == (1 if old_log else 0)


# ---- ZooKeeper -------------------------------------------------------------------------------------------------------


def test_brokers_and_topics_have_nodes_and_topics_are_made_by_nodes() -> None:
    timeline = Timeline()
    cluster = SimCluster(timeline, Random(1), "0.8.2.2", 2, topics={"t": 1}, replication=2, name="source")
    zookeeper = cluster.zookeeper

    def node(path: str) -> Any:
        return json.loads(zookeeper.nodes[path].data or b"null")

    assert (node("/brokers/ids/1")["host"], node("/brokers/ids/1")["port"]) == cluster.address(1) == ("source-1", 9092)
    assert node("/brokers/topics/t") == {"version": 1, "partitions": {"0": [1, 2]}}
    assert node("/brokers/topics/t/partitions/0/state")["isr"] == [1, 2]
    zookeeper.put("/brokers/topics/made", b'{"version":1,"partitions":{"0":[2],"1":[1]}}')
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(("made", 0)) is not None, 5)
    assert node("/brokers/topics/made/partitions/1/state")["leader"] == 1
    zookeeper.put("/brokers/topics/made", b'{"version":1,"partitions":{"0":[2],"1":[1],"2":[2,1]}}')
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(("made", 2)) is not None, 5)
    cluster.kill(1)
    timeline.run_until(timeline.now + 1)
    assert "/brokers/ids/1" in zookeeper.nodes
    timeline.run_until(timeline.now + 10)
    assert "/brokers/ids/1" not in zookeeper.nodes
    assert node("/controller")["brokerid"] == 2
    assert node("/brokers/topics/t/partitions/0/state")["leader"] == 2


def test_each_broker_hears_of_leaders_after_a_delay_of_its_own() -> None:
    timeline = Timeline()
    cluster = SimCluster(timeline, Random(1), "2.8.2", 3, topics={"t": 1}, replication=3)
    cluster.controller.delays_s[3] = (5.0, 5.0)
    assert cluster.move_leader(T, 2)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(T) is not None, 1)
    timeline.run_until(timeline.now + 0.1)
    leaders = [metadata_of(Client(cluster, broker), "t")["partitions"][0]["leader"] for broker in (1, 2, 3)]
    assert leaders == [2, 2, 1]
    timeline.run_until(timeline.now + 6)
    assert metadata_of(Client(cluster, 3), "t")["partitions"][0]["leader"] == 2


def test_a_started_broker_knows_nothing_until_the_controller_has_told_it() -> None:
    cluster = cluster_of("0.10.2.2", 2)
    cluster.kill(2)
    cluster.timeline.run_until(cluster.timeline.now + 30)
    cluster.controller.delays_s[2] = (1.0, 1.0)
    cluster.start(2)
    told = Client(cluster, 2).call(apis.METADATA, 0, {"topics": []})
    assert (told["brokers"], told["topics"]) == ([], [])
    cluster.timeline.run_until(cluster.timeline.now + 2)
    told = Client(cluster, 2).call(apis.METADATA, 0, {"topics": []})
    assert (len(told["brokers"]), len(told["topics"])) == (2, 1)


def test_a_reader_is_sent_to_the_replica_in_its_rack() -> None:
    timeline = Timeline()
    settings = {"replica.selector.class": "RackAwareReplicaSelector"}
    cluster = SimCluster(timeline, Random(1), "2.8.2", 2, topics={"t": 1}, replication=2, settings=settings)
    cluster.racks = {1: "a", 2: "b"}
    leader = Client(cluster, 1)
    assert leader.produce(batch(rows_of(0, 1), producer=-1), acks=-1, version=3, timeout_ms=5000) == (0, 0)
    assert leader.fetch(0, 11, rack_id="a")["preferred_read_replica"] == -1
    sent = leader.fetch(0, 11, rack_id="b")
    assert (sent["preferred_read_replica"], bytes(sent["message_set"])) == (2, b"")
    timeline.run_until(timeline.now + 1)
    assert len(values_of(Client(cluster, 2).fetch(0, 11, rack_id="b")["message_set"])) == 1


@pytest.mark.parametrize(("release", "code"), [("2.4.1", 59), ("2.8.2", 0)])
def test_a_producer_whose_messages_are_old_is_forgotten(release: str, code: int) -> None:
    """Expiry counts from the timestamp of the last batch: a resent batch is taken as new from 2.5 on (6)."""
    cluster = cluster_of(release, log_retention_ms="-1")
    client = Client(cluster)
    assert client.produce(batch(rows_of(0, 1)), version=3) == (0, 0)
    assert client.produce(batch(rows_of(0, 1)), version=3) == (0, 0)
    cluster.timeline.run_until(cluster.timeline.now + 1300)
    assert client.produce(batch(rows_of(0, 1)), version=3) == (0, 1)  # stored twice
    following = bytearray(batch(rows_of(0, 1), producer=8)[21:])
    struct.pack_into(">i", following, 32, 5)
    assert client.produce(sealed(0, bytes(following)), version=3)[0] == code
