"""A load job's file: what it takes, and what it says of what is wrong.  The page of options, the example, the unit."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from groundwork.options import specs
from kafkawire.model import TopicPartition
from sparkpipeline.commands.load import run
from sparkpipeline.commands.reference import load_table
from sparkpipeline.errors import EXIT_OF, OptionRefused
from sparkpipeline.load.config import LoadConfig, config_of, read_config

ROOT = Path(__file__).parents[2]
LEAST = {"base": "/warehouse/", "bootstrap.servers": "b1:9092,b2:9093", "topics": ["orders"]}


def test_little_is_needed_and_the_rest_has_defaults() -> None:
    found = config_of(LEAST, "job.yaml")
    assert (found.base, found.topics) == ("/warehouse", ("orders",))
    assert found.bootstrap == (("b1", 9092), ("b2", 9093))
    assert (found.out_of_range, found.starting_offsets, found.time_from, found.storage) == (
        "fail", "earliest", "message", "kafka"
    )  # fmt: skip


def test_the_file_gives_the_job_its_name(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text("base: hdfs://n/x\nzookeeper.connect: z:2181\npartitions: {orders: [0, 2]}\ngroup.id: g\n")
    found = read_config(file)
    assert (found.name, found.storage) == ("orders", "zookeeper")
    assert found.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 2))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"topic": ["a"]}, "option 'topic' is unknown; did you mean 'topics'?"),
        ({"base": "warehouse"}, "option 'base' is 'warehouse', expected a URI such as hdfs://"),
        ({"base": None}, "option 'base'"),
        ({"topics": ["a/b"]}, "names of topics; 'a/b' is not one"),
        ({"topics.pattern": "a.*"}, "exactly one of topics, topics.pattern and partitions"),
        ({"topics": None, "topics.pattern": "a(*"}, "expected a Java regular expression"),
        ({"topics": []}, "exactly one of topics, topics.pattern and partitions"),
        ({"bootstrap.servers": None}, "option 'bootstrap.servers'"),
        ({"out.of.range": "latest"}, "expected one of fail, earliest"),
        ({"limit.rows": 0}, "expected at least 1"),
        ({"output.format": "avro"}, "expected one of parquet, orc, json"),
        ({"output.format": "json", "compression": "snappy"}, "output.format json does not take compression snappy"),
        ({"output.format": "orc", "json.values": "text"}, "json.values text needs output.format json"),
        ({"time.from": "json"}, "time.from json and time.field go together"),
        ({"time.from": "json", "time.field": "created"}, "expected a path such as $.created"),
        ({"time.callable": "a:b"}, "time.from callable and time.callable go together"),
        ({"time.from": "callable", "time.callable": "nothing"}, "expected package.module:function"),
        ({"offsets.storage": "kafka"}, "offsets.storage needs group.id"),
        ({"group.id": "g", "offsets.storage": "dual"}, "offsets.storage dual needs zookeeper.connect"),
        ({"lateness.minutes": "ten"}, "expected a whole number of min"),
        ({"zookeeper.ssl.key.location": "k.pem"}, "'zookeeper.ssl.key.location' needs 'zookeeper.ssl.certificate"),
        ({"compression": "lzo"}, "expected one of snappy, gzip, zstd, lz4, none"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_option(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        config_of({**LEAST, **change}, "job.yaml")
    assert "job.yaml: " in str(refused.value)
    assert sentence in str(refused.value)
    assert EXIT_OF[refused.value.code] == "usage"


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(OptionRefused, match=r"'tpics'.*did you mean 'topics'.*; .*'limit\.rows'"):
        config_of({"base": "/w", "bootstrap.servers": "b:1", "tpics": ["a"], "limit.rows": -1}, "job.yaml")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("base: /a\nbase: /b\n", "line 2: 'base' is given twice, first in line 1"),
        ("base: [", "not YAML"),
        ("- base\n", "expected the options of a load"),
        ("", "option 'base' is missing"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(OptionRefused, match=r"job\.yaml") as refused:
        read_config(file)
    assert sentence in str(refused.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionRefused, match=r"nowhere\.yaml: cannot be read: No such file"):
        read_config(tmp_path / "nowhere.yaml")


def test_the_example_is_a_job_and_the_table_has_every_option() -> None:
    found = read_config(ROOT / "conf" / "load.yaml")
    assert (found.name, found.time_field, found.topics) == ("orders", "$.created", ("orders", "payments"))
    assert len(specs(LoadConfig)) == len(dataclasses.fields(found))
    for spec in specs(LoadConfig).values():
        assert load_table().count(f"`{spec.key}`") == 1, spec.key
    assert "| `base` | required |" in load_table()


def test_the_unit_runs_the_command_with_the_jobs_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == "/var/lib/sparkpipeline/orders")  # StateDirectory=
    service = (ROOT / "systemd" / "sparkpipeline-load@.service").read_text()
    (start,) = (line for line in service.splitlines() if line.startswith("ExecStart="))
    program, *words = shlex.split(start.removeprefix("ExecStart="))
    assert Path(program).name == "sparkpipeline"
    assert words[:2] == ["load", "run"]
    arguments = [word.replace("%i", "orders") for word in words[2:] if word != "$SPARK_OPTIONS"]
    told = run.make_context("run", arguments).params
    assert (str(told["job"]), str(told["report"])) == (
        "/etc/sparkpipeline/orders.yaml", "/var/lib/sparkpipeline/orders/last.json"
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_has_nothing_to_say_about_the_unit_and_its_timer(tmp_path: Path) -> None:
    for kind in ("service", "timer"):
        text = (ROOT / "systemd" / f"sparkpipeline-load@.{kind}").read_text()
        text = text.replace("/usr/local/bin/sparkpipeline", "/bin/true")
        (tmp_path / f"sparkpipeline-load@orders.{kind}").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
