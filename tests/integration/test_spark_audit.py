"""`sparkpipeline audit` on real clusters: what is equal, lost, repeated, and moved to other partitions."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from groundwork.output import EXIT
from kafkawire.compression import GZIP, SNAPPY
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.commands.cli import outcome
from tests.integration.sparkloads import job
from tests.integration.sparktopics import Field, produce

pytestmark = [pytest.mark.real, pytest.mark.spark]
Rows = list[tuple[Field, Field]]


def numbered(start: int, end: int) -> Rows:
    return [(b"key-%d" % (n % 97), None if n % 50 == 7 else b"value %d" % n) for n in range(start, end)]


def audit(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[tuple[str, ...]], str]:
    """Exit code, rows as (topic, partition, window, difference, messages, first, last), stderr."""
    code = outcome(["audit", *args, "-o", "csv"])
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    names = ("topic", "partition", "window", "difference", "messages", "first_offset", "last_offset")
    return code, [tuple(row[name] for name in names) for row in rows], err


def test_a_mirror_is_compared_by_content_whatever_its_offsets_and_codecs(
    spark: Any, source: ClusterClient, target: ClusterClient, unique: Any, tmp_path: Path, capsys: Any
) -> None:
    topic, keyed, report = unique.topic(), unique.topic("keyed"), tmp_path / "report.json"
    for cluster, count in ((source, 2), (target, 3)):
        cluster.create_topic(topic, partitions=2)
        cluster.create_topic(keyed, partitions=count)
    for partition in (0, 1):
        tp, rows = TopicPartition(topic, partition), numbered(0, 6000)
        produce(source, tp, rows)
        if partition:
            produce(target, tp, [(b"older", b"%d" % n) for n in range(5)])
        produce(target, tp, rows, (GZIP, SNAPPY)[partition], a_set=97)
    for cluster, count in ((source, 2), (target, 3)):
        for partition in range(count):
            produce(cluster, TopicPartition(keyed, partition), numbered(0, 20)[partition::count])
    reach = ["--source-brokers", source.brokers, "--target-zookeeper", target.zookeeper, "--report", str(report)]
    both = ["--topics", f"{topic},{keyed}", "--keyed", keyed]
    code, rows, err = audit(capsys, *reach, *both)
    assert (code, rows) == (EXIT["partly"], [(topic, "1", "target 0-99999", "foreign", "5", "0", "4")])
    assert "12,020 messages in the source, 12,025 in the target" in err
    assert audit(capsys, *reach, *both, "--allow", "foreign")[0] == EXIT["done"]
    said = json.loads(report.read_text())
    assert (said["equal"], said["passed"], said["messages"]) == (False, True, {"source": 12020, "target": 12025})
    assert said["scopes"][-1]["topic"] == topic
    assert [window["window"] for window in said["scopes"][-1]["source"]["windows"]] == ["all"]
    offsets = json.dumps({topic: {"0": 0, "1": 5}})
    limited = ["--topics", topic, "--from", json.dumps({topic: {"0": 0, "1": 0}}), "--target-from", offsets]
    assert audit(capsys, *reach, *limited)[:2] == (EXIT["done"], [])


def test_what_a_mirror_lost_repeated_and_has_not_yet_is_told_apart(
    spark: Any, source: ClusterClient, target: ClusterClient, unique: Any, capsys: Any
) -> None:
    topic = unique.topic()
    tp = TopicPartition(topic, 0)
    for cluster in (source, target):
        cluster.create_topic(topic, partitions=1)
    produce(source, tp, numbered(0, 5000), SNAPPY)
    produce(target, tp, numbered(0, 2000))
    produce(target, tp, numbered(1700, 3000))  # once more from its last commit on
    produce(target, tp, numbered(3001, 4600))
    reach = ["--source-brokers", source.brokers, "--target-brokers", target.brokers, "--topics", topic]
    code, rows, err = audit(capsys, *reach, "--block", "1000")
    assert code == EXIT["partly"]
    assert rows == [
        (topic, "0", "1000-1999", "duplicated", "300", "2000", "2299"),
        (topic, "0", "3000-3999", "missing", "1", "3000", "3000"),
        (topic, "0", "4000-4999", "behind", "400", "4600", "4999"),
    ]
    assert "1 missing: in the source only" in err
    allowed = ["--allow", "duplicated", "--allow", "behind"]
    assert audit(capsys, *reach, *allowed)[0] == EXIT["partly"]
    quick = audit(capsys, *reach, "--no-match")
    assert [row[3] for row in quick[1]] == ["unequal"]
    assert audit(capsys, *reach, "--to", json.dumps({topic: {"0": 9999}}), "--target-to", "{}")[0] == EXIT["usage"]


def test_files_that_are_not_what_the_cluster_holds_are_told_by_offset(
    spark: Any, source: ClusterClient, unique: Any, tmp_path: Path, capsys: Any
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=2)
    for partition in (0, 1):
        produce(source, TopicPartition(topic, partition), numbered(0, 2500), SNAPPY)
    load = job(source, tmp_path / "loaded", spark, topics=[topic])
    load.run()
    produce(source, TopicPartition(topic, 0), numbered(0, 50))  # not loaded yet: no difference
    reach = ["--source-zookeeper", source.zookeeper, "--files", str(tmp_path / "loaded")]
    code, rows, err = audit(capsys, *reach)
    assert (code, rows) == (EXIT["done"], [])
    assert "5,000 messages in the source, 5,000 in the target" in err
    [file] = load.data.rglob(f"{topic}+1+*.parquet")
    found = parquet.ParquetFile(file).read()
    rows_of = found.sort_by("offset")
    swapped = rows_of.slice(1200, 1).set_column(found.column_names.index("key"), "key", [[b"another"]])
    parts = [rows_of.slice(0, 100), rows_of.slice(103, 1097), swapped, rows_of.slice(1201), rows_of.slice(2000, 2)]
    parquet.write_table(pyarrow.concat_tables(parts).cast(found.schema), file)
    code, rows, err = audit(capsys, *reach, "--block", "1000")
    assert code == EXIT["partly"]
    assert rows == [
        (topic, "1", "0-999", "missing", "3", "100", "102"),
        (topic, "1", "1000-1999", "changed", "1", "1200", "1200"),
        (topic, "1", "2000-2999", "duplicated", "2", "2000", "2001"),
    ]
