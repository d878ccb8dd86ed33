"""What docs/from-0.7.md shows exists: commands with their flags, files that pass the check, Python that compiles."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from localkafka.mirror import COMMAND
from tests.fakes.helppages import code_of_help
from tests.fakes.page07 import blocks, commands


def help_of(command: str) -> int:
    """A command and its switches, asked for help: each switch has to be known, and have a value that it takes."""
    return code_of_help(shlex.split(command.partition(" > ")[0].partition(" < ")[0]))


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_every_command_of_the_page_exists_with_its_flags(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert help_of(command) == 0, capfd.readouterr().err


def test_a_flag_that_does_not_exist_would_be_seen() -> None:
    assert help_of("zkconsumer lag --nonsense") == 2


def test_every_file_of_a_mirror_passes_its_check(tmp_path: Path) -> None:
    files = blocks("yaml")
    assert len(files) == 2
    for number, text in enumerate(files):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        done = subprocess.run(
            [str(COMMAND), "check", str(file)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_originals_files_pass_the_check(tmp_path: Path) -> None:
    consumer, producer = blocks("properties")
    (tmp_path / "consumer.properties").write_text(consumer)
    (tmp_path / "producer.properties").write_text(producer)
    [command] = [one for one in commands() if one.startswith("mirrormaker check --consumer.config")]
    argv = [str(COMMAND), *shlex.split(command)[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ignored = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert [line.partition(" (")[0] for line in ignored] == [
        "warning: consumer.properties: ignored: mirror.topics.whitelist",
        "warning: producer.properties: ignored: producer.type",
    ]


def test_every_python_example_compiles_and_the_one_without_zookeeper_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = blocks("python")
    assert len(examples) >= 4
    for number, text in enumerate(examples):
        compile(text, f"example {number}", "exec")
    [alone] = [text for text in examples if "Broker07" in text]
    exec(alone.replace("/tmp/seven", str(tmp_path)), {})
    assert "[26] [Row(position=0, resume_at=13, value=b'one'), Row(position=13" in capsys.readouterr().out
