"""`sparkpipeline backfill` and `audit` from Kafka 0.7 into 0.8.2.2: byte offsets, wrappers, hand-over of a group."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from groundwork import failpoints
from groundwork.output import EXIT
from kafkawire.model import BrokerPartition, TopicPartition
from localkafka.client import ClusterClient
from localkafka.seven.cluster import Cluster07
from sparkpipeline.commands.cli import outcome
from tests.conftest import Unique
from tests.integration.sparkseven import fill, held, seven_job, values
from tests.integration.sparktopics import everything, produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

PLACES = (BrokerPartition(0, 0), BrokerPartition(0, 1), BrokerPartition(1, 0))  # partitions 0, 1, 2 of the target


@pytest.fixture(autouse=True)
def _nothing_armed() -> Iterator[None]:
    yield
    failpoints.arm("")


def audit(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[tuple[str, ...]], str]:
    """Exit code, rows as (partition, difference, messages), stderr."""
    capsys.readouterr()
    code = outcome(["audit", *args, "-o", "csv"])
    out, err = capsys.readouterr()
    rows = csv.DictReader(io.StringIO(out))
    return code, [tuple(row[name] for name in ("partition", "difference", "messages")) for row in rows], err


def test_topics_of_0_7_are_copied_once_and_compared_by_content(
    spark: Any, cluster07: Callable[..., Cluster07], target: ClusterClient, unique: Unique, tmp_path: Path, capsys: Any
) -> None:
    topic, group, report = unique.topic(), unique.group("mirror"), tmp_path / "report.json"
    old = cluster07(partitions={0: 2, 1: 1})
    for place, count in zip(PLACES, (600, 40, 300), strict=True):
        fill(old, topic, place, values(str(place), count), batch=9)
    target.create_topic(topic, partitions=3)
    reach = ["--source-zookeeper", old.zookeeper, "--source-protocol", "0.7", "--target-brokers", target.brokers,
             "--topics", topic]  # fmt: skip
    command = ["backfill", str(tmp_path / "b"), *reach, "--target-option", "kafka.request.timeout.ms=1500",
               "--chunk", "9000", "--group", group]  # fmt: skip
    assert outcome([*command, "--offsets-storage", "dual"]) == EXIT["usage"]
    # The second chunk is copied and has no mark: the next run compares it with the target, and sends none of it again.
    failpoints.arm("backfill after copy=raise@2")
    with pytest.raises(failpoints.FailpointReached):
        outcome([*command, "--tasks", "1", "--execute"])
    failpoints.arm("")
    assert outcome(["backfill", str(tmp_path / "b"), "--execute", "--report", str(report)]) == EXIT["done"]
    wanted = {
        number: [row[4] for row in held(old, topic) if row[:2] == (place.broker, place.index)]
        for number, place in enumerate(PLACES)
    }
    assert {p: [value for _, _, value in rows] for p, rows in everything(target, topic).items()} == wanted
    said = json.loads(report.read_text())
    assert (said["messages"], said["may_repeat"], said["failures"]) == (940, 0, [])
    assert [row["target_partition"] for row in said["partitions"]] == [0, 1, 2]
    assert said["partitions"][0]["kept"] > 0
    offsets = {place: int(old.zk().get(f"/consumers/{group}/offsets/{topic}/{place}")[0]) for place in PLACES}
    assert offsets == old.ends(topic)
    assert len(list((tmp_path / "b/done").iterdir())) > len(PLACES), "more than a chunk a partition"

    code, rows, err = audit(capsys, *reach, "--report", str(report))
    assert (code, rows) == (EXIT["done"], [])
    assert "940 messages in the source, 940 in the target" in err
    said = json.loads(report.read_text())
    assert said["offsets"]["source"][topic] == {str(place): [0, end] for place, end in old.ends(topic).items()}
    fill(old, topic, PLACES[2], values("behind", 7), batch=7)
    produce(target, TopicPartition(topic, 1), [(None, wanted[0][17]), (None, b"foreign")])
    code, rows, _ = audit(capsys, *reach)
    assert code == EXIT["partly"]
    assert sorted(rows) == [("1", "duplicated", "1"), ("1", "foreign", "1"), ("1-0", "behind", "7")]
    ends = {str(place): end for place, end in old.ends(topic).items()}
    both = ["--from", json.dumps({topic: dict.fromkeys(ends, 0)}), "--to", json.dumps({topic: ends | {"1-0": 0}}),
            "--target-from", json.dumps({topic: dict.fromkeys("012", 0)}),
            "--target-to", json.dumps({topic: {"0": 600, "1": 40, "2": 0}})]  # fmt: skip
    assert audit(capsys, *reach, *both)[:2] == (EXIT["done"], [])
    code, _, err = audit(capsys, *reach, "--from", "2026-01-01T00:00Z")
    assert code == EXIT["usage"]
    assert "messages of Kafka 0.7 have no time" in err


def test_files_of_0_7_are_compared_message_by_message_where_a_wrapper_gives_one_offset_to_many(
    spark: Any, cluster07: Callable[..., Cluster07], unique: Unique, tmp_path: Path, capsys: Any
) -> None:
    topic = unique.topic()
    old = cluster07(partitions={0: 2, 1: 1}, settings={"log.file.size": 9000})
    for place, count in zip(PLACES, (700, 40, 300), strict=True):
        fill(old, topic, place, values(str(place), count), batch=9)
    load = seven_job(old, tmp_path / "load", spark, topics=[topic])
    load.run()
    fill(old, topic, PLACES[1], values("not loaded yet", 20))
    reach = ["--source-zookeeper", old.zookeeper, "--source-protocol", "0.7", "--files", str(tmp_path / "load")]
    code, rows, err = audit(capsys, *reach)
    assert (code, rows) == (EXIT["done"], [])
    assert "3 compared: 1,040 messages in the source, 1,040 in the target" in err

    [file] = load.data.rglob(f"{topic}+0-0+*.parquet")
    whole = parquet.ParquetFile(file).read()
    numbers = whole.column("innerIndex").to_pylist()
    inside = [n for n, number in enumerate(numbers) if number == 4]  # the fifth of nine in a wrapper
    assert len(inside) > 20
    lost, twice, changed = inside[3], inside[9], inside[-1]
    value = whole.column_names.index("value")
    other = whole.slice(changed, 1).set_column(value, "value", [[b"another"]])
    parts = [whole.slice(0, lost), whole.slice(lost + 1, twice - lost), whole.slice(twice, changed - twice), other,
             whole.slice(changed + 1)]  # fmt: skip
    parquet.write_table(pyarrow.concat_tables(parts).cast(whole.schema), file)
    code, rows, _ = audit(capsys, *reach)
    assert (code, sorted(rows)) == (
        EXIT["partly"], [("0-0", "changed", "1"), ("0-0", "duplicated", "1"), ("0-0", "missing", "1")],
    )  # fmt: skip
    code, rows, _ = audit(capsys, *reach, "--block", "4")
    assert sorted(rows) == [("0-0", "changed", "1"), ("0-0", "duplicated", "1"), ("0-0", "missing", "1")]
    assert [row[:2] for row in audit(capsys, *reach, "--no-match")[1]] == [("0-0", "unequal")]
