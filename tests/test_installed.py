"""What is installed from a wheel, in an empty environment outside of the checkout: every command runs from there.

Builds need no network; dependencies come from the package index, as for anyone who installs the wheel.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCRIPTS = PROJECT["project"]["scripts"]
VERSION = PROJECT["project"]["version"]
PYTHONS = ("3.11", "3.12", "3.13")
TRIED = ["3.11", pytest.param("3.12", marks=pytest.mark.faults), "3.13"]  # `make test` tries the oldest and the newest
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".audit", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "benchmarks"
)
FRAME = "0003 0000 00000007 0001 63 00000001 0006 6f7264657273"  # a Metadata request of 0.8 for the topic orders


def built(tree: Path, to: Path, umask: int = 0o022) -> Built:
    """Builds the sdist of a tree, and the wheel from that."""
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(to), str(tree)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, umask=umask, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "deprecated" not in done.stdout + done.stderr
    return Built(tree, next(to.glob("*.whl")), next(to.glob("*.tar.gz")))


@dataclass(frozen=True)
class Built:
    """A copy of the checkout, and what was built from it."""

    tree: Path
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("first")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    return built(folder / "tree", folder / "out")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_copies_of_a_tree_make_the_same_files_byte_by_byte(first: Built, tmp_path: Path) -> None:
    """In another folder, with other times and modes of files, under another umask."""
    tree = shutil.copytree(first.tree, tmp_path / "another", ignore=LEFT_OUT)
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (1e9, 1e9))
        path.chmod(0o700 if path.is_dir() else 0o600)
    second = built(tree, tmp_path / "out", umask=0o077)
    assert (digest(second.wheel), digest(second.sdist)) == (digest(first.wheel), digest(first.sdist))


def test_the_source_distribution_has_what_its_readers_need(first: Built) -> None:
    with tarfile.open(first.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("conf", "systemd", "docs", "examples"):
        there = {
            str(path.relative_to(first.tree)) for path in (first.tree / folder).rglob("*") if path.is_file()
        }  # fmt: skip
        assert there <= names, folder
    assert {"README.md", "LICENSE", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "setup.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/")) or name.endswith(".pyc")]


def test_the_wheel_has_packages_samples_and_license_and_nothing_else(first: Built) -> None:
    with zipfile.ZipFile(first.wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"kafka_legacy_mirror-{VERSION}.dist-info/METADATA").decode()
    packages = {one.removesuffix("*") for one in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    tops = {name.partition("/")[0] for name in names}
    assert tops == {*packages, "pyspark_kafka08.py", f"kafka_legacy_mirror-{VERSION}.dist-info"}
    for package in packages:
        code = {str(path.relative_to(first.tree)) for path in (first.tree / package).rglob("*.py")}
        assert code | {f"{package}/py.typed"} <= names
    shipped = {name.removeprefix("mirrormaker/shipped/") for name in names if "/shipped/" in name}
    assert {"conf/mirror.yaml", "conf/prometheus/alerts.yml", "systemd/mirrormaker@.service"} <= shipped
    assert all((first.tree / name).is_file() for name in shipped)
    assert f"kafka_legacy_mirror-{VERSION}.dist-info/licenses/LICENSE" in names
    assert "License-Expression: Apache-2.0" in metadata
    for version in PYTHONS:
        assert f"Classifier: Programming Language :: Python :: {version}\n" in metadata


# in empty environments ------------------------------------------------------------------------------------------------


def interpreter(version: str) -> str:
    """A Python of that version: on the PATH or one that pyenv has.  Skips the test where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python{version}")))]
    if sys.version.startswith(f"{version}."):
        found.insert(0, sys.executable)
    for candidate in filter(None, found):
        asked = subprocess.run([candidate, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
        if asked.returncode == 0 and asked.stdout.startswith(f"{version}."):  # a shim of pyenv may name no Python
            return candidate
    pytest.skip(f"needs Python {version}: there is no python{version} on the PATH and none in {pyenv}")


HELP_OF_ALL = """
import click
from zkconsumer.commands.cli import cli as zkconsumer
from mirrormaker.commands.cli import cli as mirrormaker
from sparkpipeline.commands.cli import cli as sparkpipeline

def show(ctx):
    assert "Examples:" in ctx.get_help() and "Exit codes:" in ctx.get_help()
    print(ctx.command_path)
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            show(click.Context(ctx.command.get_command(ctx, name), parent=ctx, info_name=name))

for name, program in {"zkconsumer": zkconsumer, "mirrormaker": mirrormaker, "sparkpipeline": sparkpipeline}.items():
    show(click.Context(program, info_name=name))
"""


class Environment:
    """A virtual environment with the wheel and what it depends on, and a folder to run commands in."""

    def __init__(self, folder: Path, python: str, wheel: Path) -> None:
        self.bin, self.here = folder / "env" / "bin", folder / "here"
        self.here.mkdir()
        subprocess.run([python, "-m", "venv", folder / "env"], check=True, timeout=300)
        self.ok("python", "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel), timeout=900)

    def run(self, *words: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
        own |= {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.here), **environment}
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, cwd=self.here, env=own)

    def ok(self, *words: str, timeout: float = 120, **environment: str) -> str:
        done = self.run(*words, timeout=timeout, **environment)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return path.name


@pytest.mark.parametrize("version", TRIED)
def test_every_command_runs_from_the_wheel(version: str, first: Built, tmp_path: Path) -> None:
    """With a real use of each that needs no broker.  Nothing comes from the checkout, and no extra is there."""
    there = Environment(tmp_path, interpreter(version), first.wheel)
    for name in SCRIPTS:
        assert there.ok(name, "--help").startswith("Usage: ")
        assert there.ok(name, "--version").split()[-1] == VERSION
    packages = sorted(one.removesuffix("*") for one in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"])
    program = f"import sys, {', '.join(packages)}\nfor name in {packages}: print(sys.modules[name].__file__)\n"
    imported = there.ok("python", "-c", f"{program}print(*sys.path)")
    assert str(ROOT) not in imported
    assert imported.count(f"{tmp_path}/env/lib/python{version}/site-packages") == len(packages) + 1

    write(there.here / "mirror.yaml", there.ok("mirrormaker", "sample-config"))
    assert there.ok("mirrormaker", "check", "mirror.yaml").startswith("ok: 1 source, topics orders|payments.*; ")
    for name in ("consumer", "producer"):
        sample = there.ok("mirrormaker", "sample-config", "--name", f"{name}.properties")
        write(there.here / f"{name}.properties", sample)
    flags = ["--consumer.config", "consumer.properties", "--producer.config", "producer.properties"]
    there.ok("mirrormaker", "check", *flags, "--whitelist", "orders")
    unit = there.ok("mirrormaker", "systemd-unit")
    assert f"\nExecStart={there.bin}/mirrormaker run /etc/mirrormaker/%i.yaml\n" in unit

    decode = ["python", "-m", "kafkawire", "decode", "--protocol", "0.8", "--kind", "request", FRAME]
    assert '"client_id": "c"' in there.ok(*decode)
    helped = there.ok("python", "-c", HELP_OF_ALL).splitlines()
    assert {"zkconsumer offsets reset", "sparkpipeline load rewind", "mirrormaker parked release"} <= set(helped)
    there.ok("zkconsumer", "migrate", "copy", "--help")
    assert "complete -o nosort -F _zkproducer_completion zkproducer" in there.ok("zkproducer", "completion", "bash")
    there.ok("sparkpipeline", "pyfiles", "kafka08.zip")
    assert zipfile.is_zipfile(there.here / "kafka08.zip")
    refused = there.run("zkproducer", "--topic", "orders")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Try 'zkproducer --help' for help." in refused.stderr
    assert "\nError: no way to find the brokers: give --broker-list " in refused.stderr

    for name in ("load", "pipeline"):
        write(there.here / f"{name}.yaml", there.ok("mirrormaker", "sample-config", "--name", name))
    write(there.here / "http.yaml", (there.here / "mirror.yaml").read_text().replace("# http.listen:", "http.listen:"))
    audit = ["audit", "--source-brokers", "127.0.0.1:1", "--target-brokers", "127.0.0.1:1", "--topics", "orders"]
    for words in (["load", "run", "load.yaml"], ["run", "pipeline.yaml"], ["stages", "list", "pipeline.yaml"], audit):
        sentence = "error: pyspark is not installed, and this needs it: pip install 'kafka-legacy-mirror[spark]'\n"
        assert there.run("sparkpipeline", *words).stderr == sentence
    for words, extra in (
        (["mirrormaker", "check", "http.yaml"], "metrics"),
        (["env", "KAFKAWIRE_KERNELS=numba", "zkconsumer", "--version", "-v"], "fast"),
        (["env", "LOCALKAFKA_BACKEND=docker", "python", "-m", "localkafka"], "docker"),
    ):
        refused = there.run(*words)
        assert refused.returncode, words
        assert f"kafka-legacy-mirror[{extra}]" in refused.stderr.splitlines()[-1]
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("version", PYTHONS)
def test_all_extras_resolve_together_to_wheels(version: str) -> None:
    """So each does alone.  pyspark is published as source only: what it asks of Python and of others is asked here."""
    spark = importlib.metadata.metadata("pyspark")
    assert version in SpecifierSet(spark["Requires-Python"] or "")
    wanted = {*PROJECT["project"]["dependencies"]}
    for extra in PROJECT["project"]["optional-dependencies"].values():
        wanted |= {each for each in extra if Requirement(each).name != "pyspark"}
    wanted |= {each for each in importlib.metadata.requires("pyspark") or () if "extra ==" not in each}
    words = [
        interpreter(version),
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "-q",
        "--only-binary",
        ":all:",
    ]
    done = subprocess.run([*words, *sorted(wanted)], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]


def test_pipx_installs_the_tree(first: Built, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True, timeout=300)
    python = tmp_path / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "pipx"]
    subprocess.run(pip, check=True, timeout=600)
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "PIPX_MAN_DIR": str(tmp_path)}
    words = [python, "-m", "pipx", "install", "--python", sys.executable, str(first.tree)]
    done = subprocess.run(words, env={**os.environ, **places}, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for name in SCRIPTS:
        told = subprocess.run([tmp_path / "bin" / name, "--version"], capture_output=True, text=True, timeout=120)
        assert told.stdout.split()[-1] == VERSION
