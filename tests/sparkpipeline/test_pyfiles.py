"""The zip for --py-files: what is in it is enough for a Python that has pyspark and pyarrow alone."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparkpipeline.commands.pyfiles import pyfiles, write_zip
from tests.integration.barepython import bare_python

TASKS = """
import sys
sys.path.insert(0, sys.argv[1])
import pyspark_kafka08, kazoo, yaml
import sparkpipeline.audit.audittasks, sparkpipeline.backfill.chunkcopy, sparkpipeline.commands.cli
import sparkpipeline.load.staging, sparkpipeline.reading.arrow, sparkpipeline.sink.writer
import sparkpipeline.source.readers
for name in ("groundwork", "kafkawire", "kazoo", "sparkpipeline", "zkconsumer", "producer"):
    if name in sys.modules:
        assert sys.modules[name].__file__.startswith(sys.argv[1]), sys.modules[name].__file__
missing = []
for name in ("cramjam", "crc32c", "numpy", "numba", "gevent"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print(" ".join(missing))
"""


@pytest.mark.thorough
def test_what_tasks_run_is_imported_from_the_zip_alone(tmp_path: Path) -> None:
    python, out = bare_python(tmp_path / "bare"), tmp_path / "out.zip"
    write_zip(out)
    command = [str(python), "-I", "-c", TASKS, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("cramjam crc32c numpy numba gevent\n", "")


def test_the_zip_is_the_same_each_time_and_holds_no_machine_code(tmp_path: Path) -> None:
    assert write_zip(tmp_path / "a.zip") == write_zip(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert {"pyspark_kafka08.py", "sparkpipeline/datasource.py", "kafkawire/formats/v01/messages.py"} <= {*names}
    assert {name.rpartition(".")[2] for name in names} <= {"py", "typed", "xml"}


def test_the_command_says_what_has_to_be_installed(tmp_path: Path) -> None:
    done = CliRunner().invoke(pyfiles, [str(tmp_path / "out.zip")])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'out.zip'}\n"
    assert "cramjam  topics with snappy, lz4 or zstd" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zip"]


def test_a_file_that_spark_would_not_take_is_refused(tmp_path: Path) -> None:
    assert CliRunner().invoke(pyfiles, [str(tmp_path / "out.tar")]).exit_code == 2
    assert CliRunner().invoke(pyfiles, [str(tmp_path / "nowhere" / "out.zip")]).exit_code == 1
