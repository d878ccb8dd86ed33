"""Names of files: from staged to final and back, and what is none of ours."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from sparkpipeline.errors import Mismatch
from sparkpipeline.paths import FinalName, Hour, Layout, StagedName, attempt_of, batch_of, stage_final, tail


def test_names_go_from_spark_to_the_final_one_and_back() -> None:
    found = StagedName.of("topic=a.b/p=3/date=2026-01-01/hour=07/part-00012-0c-4d.c001.snappy.parquet")
    assert found is not None
    assert (found.tp, found.task, found.hour) == (TopicPartition("a.b", 3), 12, Hour("a.b", "2026-01-01", "07"))
    path = found.final(17, 90, 8)
    assert path == (
        "data/topic=a.b/date=2026-01-01/hour=07/a.b+3+00000000000000000017+00000000000000000090.g8.c001.snappy.parquet"
    )
    back = FinalName.of(path)
    assert back is not None
    assert (back.tp, back.hour, back.start, back.until, back.batch) == (found.tp, found.hour, 17, 90, 8)


@pytest.mark.parametrize("suffix", [".parquet", ".zstd.parquet", ".zlib.orc", ".orc", ".json.gz", ".json"])
def test_a_name_goes_both_ways_in_every_format(suffix: str) -> None:
    found = StagedName.of(f"topic=a/p=0-3/date=2026-01-01/hour=07/part-00000-0c-4d.c000{suffix}")
    assert found is not None
    final = found.final(0, 9, 8)
    assert final.endswith(f".g8.c000{suffix}")
    back = FinalName.of(final)
    assert back is not None
    assert (back.tp, back.start, back.until, back.batch) == (found.tp, 0, 9, 8)
    for foreign in (".crc", ".zst", ".text"):
        assert StagedName.of(f"topic=a/p=0/date=2026-01-01/hour=07/part-00000-0c-4d.c000{suffix}{foreign}") is None


@pytest.mark.parametrize("path", ["_SUCCESS", "topic=a/p=0/date=d/hour=07/.part-0.crc", "x/part-00000-1.c000.parquet"])
def test_other_files_have_no_name(path: str) -> None:
    assert StagedName.of(path) is None
    assert FinalName.of(f"data/{path}") is None


def test_a_final_name_is_found_in_its_whole_path_only() -> None:
    path = (
        "data/topic=a.b/date=2026-01-01/hour=10/a.b+3+00000000000000000017+00000000000000000090.g4.c000.snappy.parquet"
    )
    name = FinalName.of(path)
    assert name is not None
    assert (name.tp, name.start, name.until) == (TopicPartition("a.b", 3), 17, 90)
    assert tail(f"hdfs://host/warehouse/{path}") == path
    assert FinalName.of("data/topic=a/date=2026-01-01/hour=10/_CLOSED") is None
    assert FinalName.of("data/a+b+c+d.parquet") is None


def test_an_hour_knows_its_folder_its_marker_and_its_bounds() -> None:
    hour = Hour("a", "2026-01-01", "10")
    assert hour.marker == "data/topic=a/date=2026-01-01/hour=10/_CLOSED"
    assert (hour.begin_ms, hour.end_ms) == (1767261600000, 1767265200000)


def test_names_of_a_ledger_parse_back() -> None:
    layout = Layout("file:///base")
    for path in (layout.plan(17), layout.commit(17), layout.done(17), layout.snapshot(17)):
        assert batch_of(path.rpartition("/")[2]) == 17
    for path in (layout.staging(17, 2), layout.claim(17, 2), layout.seal(17, 2)):
        assert attempt_of(path.rpartition("/")[2]) == (17, 2)
    assert layout.trashed(17, "data/a") == "file:///base/_load/trash/00000017/data/a"
    assert (batch_of("17.json"), batch_of("00000017.tmp"), attempt_of("00000017")) == (None, None, None)


def test_final_names_hold_stage_task_and_batch() -> None:
    uuid = "85567643-8c59-4b14-9a43-ca23072e7629"
    assert stage_final("lines", 17, f"date=2026-01-31/hour=a%3Ab/part-00003-{uuid}.c000.snappy.parquet") == (
        "data/date=2026-01-31/hour=a%3Ab/lines-00003.g17.c000.snappy.parquet"
    )
    assert stage_final("lines", 2, f"part-00000-{uuid}-c001.zstd.parquet") == "data/lines-00000.g2.c001.zstd.parquet"
    with pytest.raises(Mismatch, match=r"KAFKA08_MISMATCH stage=lines file=other\.parquet: is not a file of Spark"):
        stage_final("lines", 2, "other.parquet")
