"""`sparkpipeline pyfiles OUT.zip`: archive for `spark-submit --py-files` if this software is not installed there."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click

from groundwork.commands import Command
from groundwork.output import EXIT, fail, print_note, print_text
from groundwork.sentences import counted

PACKAGES = ("groundwork", "kafkawire", "zkconsumer", "producer", "sparkpipeline")  # our packages, whole
MODULES = ("pyspark_kafka08",)
PURE = (
    "kazoo",
    "click",
)  # other packages in plain Python: for a driver that runs in the cluster; tasks need none of them
YAML = "yaml"  # its plain Python half
INSTALLED = (  # distribution, its purpose, and whether it is always needed
    ("pyspark", "Spark itself", True),
    ("pyarrow", "record batches", True),
    ("cramjam", "topics with snappy, lz4 or zstd", False),
    ("crc32c", "brokers of 0.11 and later", False),
    ("numba", "compiled kernels: several times as many rows a second", False),
)
TIME = (1980, 1, 1, 0, 0, 0)  # of every entry, so that the same code makes the same file


@click.command(
    cls=Command,
    examples=[
        "sparkpipeline pyfiles kafka08.zip",
        "sparkpipeline pyfiles /tmp/kafka08.zip",
        "sparkpipeline pyfiles kafka08.zip && spark-submit --py-files kafka08.zip job.py",
    ],
)
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT.zip")
def pyfiles(out: Path) -> None:
    """Write the zip that spark-submit --py-files needs.

    Also for sc.addPyFile.

    It holds our packages, and those of others that are plain Python.  Machine code has to be installed where executors
    run; this command lists it.
    """
    if out.suffix != ".zip":
        fail(f"{out}: Spark takes Python files as .zip (or .py, .egg)", EXIT["usage"])
    try:
        count = write_zip(out)
    except OSError as exc:
        fail(f"{out}: {exc.strerror or exc}")
    print_text(str(out))
    print_note(f"{counted(count, 'file')}, {out.stat().st_size:,} bytes")
    print_note(f"to be installed for {sys.executable} and its likes on every executor:")
    for name, use, always in INSTALLED:
        print_note(f"  {name:<8} {use}{'' if always else ' (not needed otherwise)'}")


def write_zip(out: Path) -> int:
    """Write the zip atomically, and return its number of files."""
    files = sorted(dict(_files()).items())
    handle, draft = tempfile.mkstemp(dir=out.absolute().parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
            for name, path in files:
                made.writestr(zipfile.ZipInfo(name, TIME), path.read_bytes(), zipfile.ZIP_DEFLATED)
        os.chmod(draft, 0o644)
        os.replace(draft, out)
    except BaseException:
        os.unlink(draft)
        raise
    return len(files)


def _files() -> Iterator[tuple[str, Path]]:
    """Yield (name in the zip, file)."""
    for name in MODULES:
        yield f"{name}.py", _origin(name)
    for name in (*PACKAGES, *PURE, YAML):
        root = _origin(name).parent
        for path in root.rglob("*"):
            if (
                path.suffix in (".py", ".typed", ".xml")
                and "__pycache__" not in path.parts
                and "tests" not in path.parts
            ):
                yield f"{name}/{path.relative_to(root).as_posix()}", path


def _origin(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        fail(f"the package {name} is not installed here, so it cannot go into the zip")
    return Path(found.origin)
