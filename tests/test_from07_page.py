"""Files and a program of docs/from-0.7.md do what it says; what every page has to keep: test_docs_blocks.py."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from localkafka.mirror import COMMAND
from tests.fakes.page07 import blocks, commands


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


def test_the_python_example_without_zookeeper_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = blocks("python")
    [alone] = [text for text in examples if "Broker07" in text]
    exec(alone.replace("/tmp/seven", str(tmp_path)), {})
    assert "[26] [Row(position=0, resume_at=13, value=b'one'), Row(position=13" in capsys.readouterr().out
