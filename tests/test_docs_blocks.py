"""No fenced block of README.md and of docs escapes the tests: each is run by one, or held by a check of its language.

| language | what holds it |
|---|---|
| sh, console | command lines are read as a shell reads them: ours with flags and values, other programs by name |
| python | it compiles, imports what is there, and its page has a test that runs it (RUN_BY) |
| yaml, json, properties | it is read as a file of a mirror, load, pipeline or producer, unknown options refused |
| sql | run by the test of its page |
| text | output and layouts: no command of ours begins a line |
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from groundwork.java import read_properties
from groundwork.options import load, specs
from mirrormaker.config import from_yaml
from mirrormaker.options import SourceOptions
from producer.config import ProducerConfig
from sparkpipeline.load.config import config_of
from sparkpipeline.stages.pipelinefile import read_pipeline
from tests.cases import each
from tests.docpages import PAGES, ROOT, Block, blocks
from tests.fakes.helppages import code_of_help

RUN_BY = {  # page -> the test that runs its programs
    "consumer.md": "tests/integration/test_consumer_doc.py",
    "consumer-workers.md": "tests/integration/test_consumer_doc.py",
    "first-hour.md": "tests/test_first_hour.py",
    "from-0.7.md": "tests/integration/test_from07_doc.py",
    "offsets-in-a-database.md": "tests/test_database_doc.py",
    "operations.md": "tests/mirrormaker/test_plugin_pages.py",
    "producer.md": "tests/producer/test_producer_doc.py",
    "security.md": "tests/mirrormaker/test_plugin_pages.py",
    "spark.md": "tests/integration/test_spark_doc.py",
    "spark-backfill-audit.md": "tests/integration/test_spark_doc.py",
    "spark-deploy.md": "tests/integration/test_spark_doc.py",
    "spark-ledger.md": "tests/integration/test_spark_doc.py",
    "spark-load.md": "tests/integration/test_spark_doc.py",
    "spark-options.md": "tests/integration/test_spark_doc.py",
    "spark-stages.md": "tests/integration/test_spark_doc.py",
    "testing.md": "tests/localkafka/test_testing_page.py",
    "transform.md": "tests/mirrormaker/test_plugin_pages.py",
}
OURS = re.compile(r"mirrormaker|zkconsumer|zkproducer|sparkpipeline|zk-[a-z-]+")
OTHERS = {  # programs that the pages name beside ours
    *("cat", "comm", "curl", "docker", "env/bin/pip", "env/bin/venv-pack", "install", "journalctl", "kafka-topics.sh"),
    *("kafka-console-consumer.sh", "ln", "make", "page-somebody", "pip", "pipx", "sort", "source", "spark-submit"),
    *("/opt/mirrormaker/bin/pip", "cd", "git", "kill", "python3", "seq", "systemctl", "wait"),
}
LANGUAGES = {"sh", "console", "python", "yaml", "json", "properties", "sql", "text"}
CONNECTED = ("&&", "||", "|", ";", "&")
SOURCE = {"name": "dc1", "zookeeper.connect": "zk1:2181", "group.id": "mirror"}
MIRROR = {
    "sources": [SOURCE],
    "target": {"metadata.broker.list": "kafka1:9092"},
    "mirror": {"whitelist": "orders"},
}


def language(block: Block) -> str:
    """Blocks of README.md without one are commands."""
    return block.language or ("sh" if block.page == "/README.md" else "")


def every(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if language(block) in languages]


@each("page", PAGES)
def test_every_block_has_a_language_that_something_holds(page: str) -> None:
    for block in blocks(page):
        assert language(block) in LANGUAGES, f"{block}: {block.language or 'no language'}"


# ---- commands -------------------------------------------------------------------------------------------------


def lines_of(block: Block) -> Iterator[str]:
    """Command lines of a block; of a console those behind `$ `.  What is fed to a command (<<'END') is left out."""
    end = None
    for line in re.sub(r"\\\n\s*", " ", block.text).splitlines():
        if end is not None:
            end = None if line == end else end
        elif language(block) == "sh" or line.startswith("$ "):
            fed = re.search(r" <<'(\w+)'", line)
            end = fed[1] if fed else None
            yield line.removeprefix("$ ").replace("<(", "").replace(f" <<'{end}'", "")


def commands_of(line: str) -> Iterator[list[str]]:
    """Words of each command of a line, without variables before it and redirections behind it."""
    lexer = shlex.shlex(re.sub(r"(^|\s)# .*", "", line), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in CONNECTED:
            while words and re.fullmatch(r"[A-Z_0-9]+=\S*", words[0]):
                words.pop(0)
            if words:
                yield words
            words = []
        else:
            words.append(word)


def words_of(command: list[str]) -> list[str]:
    """Up to a redirection."""
    return command[: next((at for at, word in enumerate(command) if set(word) <= set("<>")), len(command))]


def shown() -> list[tuple[str, str]]:
    """Each command of the pages once, and where it stands first."""
    found: dict[str, str] = {}
    for block in every("sh", "console"):
        for line in lines_of(block):
            for command in commands_of(line):
                found.setdefault(shlex.join(words_of(command)), str(block))
    return sorted((where, command) for command, where in found.items())


def test_the_pages_show_commands() -> None:
    commands = {command for _, command in shown()}
    assert len(commands) > 150
    assert {"mirrormaker run orders.yaml", "systemctl daemon-reload", "echo '$?'"} <= commands


def is_ours(words: list[str]) -> bool:
    return OURS.fullmatch(words[0]) is not None or (
        words[:2] == ["python", "-m"] and words[2] not in ("venv", "localkafka.tools")  # the latter runs Java
    )


@each(("where", "command"), [(where, command) for where, command in shown() if is_ours(command.split())])
def test_every_command_of_ours_exists_with_its_flags(
    where: str, command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert code_of_help(shlex.split(command)) == 0, f"{where}: {capfd.readouterr().err}"


def test_every_other_command_is_one_that_the_pages_may_name() -> None:
    for where, command in shown():
        words = command.split()
        if not is_ours(words):
            assert words[0] in OTHERS | {"echo", "python", "main"}, f"{where}: {command}"


def test_a_help_page_ends_no_tests_while_loops_are_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkawire.kernels._Choice.loading", True)
    assert code_of_help(["zkconsumer", "lag"]) == 0


def test_a_flag_that_is_not_there_and_a_line_of_prose_are_found_out() -> None:
    assert code_of_help(["zkconsumer", "lag", "--nonsense"]) != 0
    assert list(commands_of("NAME=x zkconsumer lag -z 'a b' | sort > f   # why")) == [
        ["zkconsumer", "lag", "-z", "a b"],
        ["sort", ">", "f"],
    ]


def test_no_command_hides_in_a_block_of_text() -> None:
    for block in every("text"):
        for line in block.text.splitlines():
            word = line.removeprefix("$ ").split(" ")[0]
            assert OURS.fullmatch(word) is None, f"{block}: {line}"
            assert word not in OTHERS, f"{block}: {line}"


# ---- programs -------------------------------------------------------------------------------------------------


@each("block", every("python"))
def test_every_program_compiles_imports_what_is_there_and_has_a_test(block: Block) -> None:
    assert block.page in RUN_BY, f"{block}: no test runs it"
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or importlib.import_module(f"{node.module}.{name.name}"), name.name


@each(("page", "file"), RUN_BY.items())
def test_the_test_of_a_page_reads_it(page: str, file: str) -> None:
    assert Path(page).name in (ROOT / file).read_text(encoding="utf-8")


# ---- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", every("yaml"), ids=str)
def test_every_file_in_yaml_is_one_that_a_command_takes(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))  # modules that the page shows, which its handlers are in
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "kafka").write_text("a password", encoding="utf-8")
    for shown in (shown for shown in blocks(block.page) if shown.language == "python" and shown.file is not None):
        with (tmp_path / str(shown.file)).open("a", encoding="utf-8") as module:
            module.write(shown.text)
        monkeypatch.delitem(sys.modules, str(shown.file).removesuffix(".py"), raising=False)
    values = yaml.safe_load(block.text)
    file = tmp_path / "page.yaml"
    if "stages" in values:
        named = [each["config"] for each in values.get("loads", ()) if "config" in each]
        for name in named:
            (tmp_path / name).write_text("{base: /b, bootstrap.servers: 'k:9092', topics: [orders]}", encoding="utf-8")
        file.write_text(block.text, encoding="utf-8")
        assert read_pipeline(str(file)).file.stages
    elif "base" in values:
        config_of(values, str(block))
    elif "security.protocol" in values:
        assert values.pop("ssl.ca.location")  # a file that has to be there
        load(SourceOptions, {**SOURCE, **values}, str(block))
    else:
        mirror = {name: values.get(name, MIRROR[name]) for name in ("sources", "target", "mirror")}
        assert values.keys() <= mirror.keys(), block
        file.write_text(yaml.safe_dump(mirror), encoding="utf-8")
        from_yaml(file)


@each("block", every("json"))
def test_every_json_is_json(block: Block) -> None:
    assert json.loads(re.sub(r"^// \S+\n", "", block.text))


@each("block", every("properties"))
def test_every_properties_file_has_options_that_are_there(block: Block) -> None:
    known = {
        name for options in (SourceOptions, ProducerConfig) for spec in specs(options).values()
        for name in (spec.key, *spec.old)
    }  # fmt: skip
    text = re.sub(r"\s+#.*", "", block.text)
    assert {name for name in read_properties(text) if name not in known | ALSO} == set(), block


ALSO = {
    "mirror.topics.whitelist",
    "target.zookeeper.connect",
    "producer.type",
}  # of a mirror's two files: test_from07_page


@each("block", every("sql"))
def test_every_query_is_on_a_page_whose_test_runs_it(block: Block) -> None:
    assert RUN_BY[block.page] == "tests/integration/test_spark_doc.py"
