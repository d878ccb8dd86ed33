"""PIPELINE.yaml: what is refused, in which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from groundwork.options import reference
from sparkpipeline.errors import OptionRefused
from sparkpipeline.stages.pipelinefile import Pipeline, PipelineFile, Stage, read_pipeline
from sparkpipeline.stages.stageprograms import program_hash, program_of

START = """
base: /warehouse/flow
loads:
  - name: orders
    base: /warehouse/orders
"""
LINES = """
stages:
  - name: lines
    inputs: [orders]
    sql: select * from orders
"""
Read = Callable[[str], Pipeline]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(text: str) -> Pipeline:
        path = tmp_path / "flow.yaml"
        path.write_text(text)
        return read_pipeline(str(path))

    return reading


def test_a_pipeline_is_read(read: Read, tmp_path: Path) -> None:
    (tmp_path / "counts.sql").write_text("select date, count(*) as n from lines group by date ;\n")
    (tmp_path / "load.yaml").write_text("base: /warehouse/customers\nbootstrap.servers: h:9092\ntopics: [customers]\n")
    found = read(
        START
        + "  - {name: customers, config: load.yaml}\n"
        + "  - {name: inline, job: {base: /warehouse/inline, bootstrap.servers: 'h:9092', topics: [t]}}\n"
        + LINES
        + """
  - {name: counts, inputs: lines, sql.file: counts.sql, mode: partition, partition.by: date}
  - name: out
    inputs: [lines]
    lookups: [customers]
    python: shop.stages:out
    arguments: {limit: 3}
    output: kafka08
    options: {kafka.bootstrap.servers: 'h:9092', topic: out, kafka.acks: 1, includeTimestamps: true}
"""
    )
    assert [node.name for node in found.graph] == ["orders", "customers", "inline", "lines", "counts", "out"]
    assert found.base_of("lines") == "/warehouse/flow/stages/lines"
    assert found.sql == {
        "lines": "select * from orders",
        "counts": "select date, count(*) as n from lines group by date",
    }
    assert (found.configs["customers"].name, found.configs["inline"].name) == ("load", "inline")
    assert found.stage("counts").inputs == ("lines",)
    assert found.stage("out").options == {
        "kafka.bootstrap.servers": "h:9092",
        "topic": "out",
        "kafka.acks": "1",
        "includeTimestamps": "true",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            START + LINES.replace("sql:", "sqll:"),
            "flow.yaml: stages[0]: option 'sqll' is unknown; did you mean 'sql'?",
        ),
        (
            START + LINES.replace("    sql: select * from orders\n", ""),
            "needs one of sql, sql.file and python; it has none",
        ),
        (
            START + LINES + "    python: a:b\n",
            "stage 'lines' needs one of sql, sql.file and python; it has sql and python",
        ),
        (
            START + LINES.replace("[orders]", "[order]"),
            "stage 'lines' reads 'order', which is neither a load nor a stage; did you mean 'orders'?",
        ),
        (
            START + LINES.replace("lines", "orders"),
            "the name 'orders' is given twice: to a load ('orders') and to a stage",
        ),
        (START + LINES + "    inputs: [orders]\n", "'inputs' is given twice"),
        (START + LINES + "    mode: hour\n", "stages[0]: option 'mode' is 'hour', expected one of batch, partition"),
        (
            START + LINES + "    mode: partition\n    batches.per.run: 3\n",
            "batches.per.run has no meaning in mode partition",
        ),
        (START + LINES + "    batches.per.run: 0\n", "'batches.per.run'"),
        (START + LINES + "    arguments: {a: 1}\n", "stage 'lines' has arguments, which only a Python function takes"),
        (
            START + LINES + "    output: kafka08\n    partition.by: [a]\n",
            "writes to a topic: partition.by is for folders",
        ),
        (
            START + LINES + "    output: kafka08\n    options: {kafka.bootstrap.servers: 'h:1', topik: t}\n",
            "stage 'lines': kafka08 sink: option 'topik' is unknown; did you mean 'topic'?",
        ),
        (START + LINES + "    partition.by: [a, A]\n", "stage 'lines' names a column twice in partition.by"),
        (START.replace("base: /warehouse/flow", "base: warehouse") + LINES, "an absolute path"),
        (START + "    config: load.yaml\n" + LINES, "load 'orders' needs one of config, job and base"),
        (START + LINES.replace("sql: select * from orders", "sql: ' ; '"), "stage=lines: its SQL is empty"),
        (
            START + LINES.replace("sql: select * from orders", "sql.file: nowhere.sql"),
            "stage=lines: sql.file cannot be read",
        ),
        ("- a\n", "flow.yaml: expected the options of a pipeline: base, loads and stages"),
        ("a: [\n", "not YAML"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(read: Read, text: str, said: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        read(text)
    assert said in str(refused.value)


def test_every_problem_is_said_at_once(read: Read) -> None:
    with pytest.raises(OptionRefused) as refused:
        read(START + LINES.replace("sql:", "sqll:") + "  - {name: more, inputs: [lines]}\n")
    assert "did you mean 'sql'" in str(refused.value)
    assert "stage 'more' needs one of" in str(refused.value)


def test_a_function_that_is_not_there_is_refused(read: Read) -> None:
    found = read(START + LINES.replace("sql: select * from orders", "python: os.path:jion"))
    with pytest.raises(OptionRefused, match=r"stage=lines: python 'os.path:jion': os.path has no jion"):
        program_of(found, found.stage("lines"), None)


def test_a_hash_tells_one_text_from_another(read: Read) -> None:
    one, same, other = (read(START + LINES.replace("*", column)) for column in ("*", "*", "topic"))
    assert program_hash(one, one.stage("lines")) == program_hash(same, same.stage("lines"))
    assert program_hash(one, one.stage("lines")) != program_hash(other, other.stage("lines"))


def test_each_option_is_in_the_reference() -> None:
    table = reference(PipelineFile)
    assert all(f"`{key}`" in table for key in ("base", "python.files", "batch.column", "lookups", "job"))
    assert "`partition.by`" in reference(Stage)


def test_the_example_in_conf_is_right() -> None:
    found = read_pipeline(str(Path(__file__).parents[2] / "conf" / "pipeline.yaml"))
    assert [node.name for node in found.graph] == ["kafka", "lines", "revenue", "expensive"]
    assert found.configs["kafka"].topics == ("orders", "payments")
