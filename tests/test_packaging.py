"""What `pip install .` takes along is what the checkout has; what a program imports and starts is there."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = {one.removesuffix("*") for one in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
IMPORT_NAMES = {"PyYAML": "yaml", "prometheus-client": "prometheus_client"}
BROUGHT = {
    "docker": {"requests"},
    "gevent": {"greenlet"},
    "numba": {"numpy", "llvmlite"},
    "pyspark": {"py4j"},
}  # in the version it asks for itself


def test_every_package_of_the_checkout_is_installed() -> None:
    """By the patterns of pyproject.toml; a folder without an __init__ would be left out without a word."""
    tops = {init.parent.name for init in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks", "examples"}
    assert tops == OURS
    for top in tops:
        folders = {file.parent for file in (ROOT / top).rglob("*.py")}
        assert all((folder / "__init__.py").is_file() for folder in folders)


def test_every_command_is_there():
    for name, where in PROJECT["project"]["scripts"].items():
        module, _, function = where.partition(":")
        assert callable(getattr(import_module(module), function)), name


def test_extras_of_users_are_named_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    for extra in PROJECT["project"]["optional-dependencies"].keys() - {"dev", "docs"}:
        assert f"`{extra}`" in readme, extra


def python(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, cwd=cwd, check=False)


@pytest.mark.parametrize("package", ["zkconsumer", "producer"])
def test_public_names_are_loaded_when_they_are_used_and_the_package_alone_loads_nothing(package: str, tmp_path: Path):
    program = f"""
import sys
import {package}
tops = {{"gevent", "kazoo", "click", "groundwork", "kafkawire", "zkconsumer", "producer"}}
print(sorted(name for name in sys.modules if name.split(".")[0] in tops))
print(sorted(set({package}.__all__) - set(dir({package}))))
from {package} import *
missing = [name for name in {package}.__all__ if globals()[name].__name__ != name]
print(missing)
try:
    {package}.Nonsense
except AttributeError as e:
    print(e)
"""
    done = python("-c", program, cwd=tmp_path)
    expected = [f"['{package}']", "[]", "[]", f"module '{package}' has no attribute 'Nonsense'"]
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")


def test_the_simple_consumer_by_its_short_name_loads_no_greenlets(tmp_path: Path):
    program = "import sys\nfrom zkconsumer import SimpleConsumer\nprint({'gevent', 'kazoo'} & sys.modules.keys())"
    done = python("-c", program, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.thorough
def test_short_imports_have_types(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        "from producer import Producer\nfrom zkconsumer import ConsumerConnector, Whitelist, process\n"
        "reveal_type(Producer)\nreveal_type(ConsumerConnector)\nreveal_type(Whitelist)\nreveal_type(process)\n"
    )
    mypy = ["-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--follow-imports", "silent", str(program)]
    done = python(*mypy, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    told = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    names = ("Producer", "ConsumerConnector", "Whitelist", "Retry")
    assert [name in line for name, line in zip(names, told, strict=True)] == [True] * 4


MODULES = {
    "mirrormaker": "mirrormaker", "zkconsumer": "zkconsumer", "producer": "zkproducer",
    "sparkpipeline": "sparkpipeline", "kafkawire": "kafkawire", "localkafka": "localkafka",
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("module", MODULES)
def test_a_package_with_a_command_runs_as_a_module_and_tells_its_version(module: str, tmp_path: Path):
    done = python("-m", module, "--version", cwd=tmp_path)
    told = f"{MODULES[module]} {PROJECT['project']['version']}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    assert python("-m", module, "--help", cwd=tmp_path).stdout.startswith("Usage: ")


@pytest.mark.thorough
@pytest.mark.parametrize("command", PROJECT["project"]["scripts"])
def test_every_command_tells_its_version(command: str, tmp_path: Path):
    where = PROJECT["project"]["scripts"][command]
    module, _, function = where.partition(":")
    start = f"import sys; sys.argv = [{command!r}, '--version']; from {module} import {function}; {function}()"
    done = python("-c", start, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0].rstrip(",") == command
    assert done.stdout.split()[-1] == PROJECT["project"]["version"]


def test_an_editable_install_is_found_by_whoever_lists_modules_by_path(tmp_path: Path):
    """Spark does, for modules named pyspark_*: a finder of setuptools is not asked."""
    program = "import pkgutil; print([m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')])"
    assert python("-c", program, cwd=tmp_path).stdout == "['pyspark_kafka08']\n"


def test_what_is_declared_is_what_is_imported() -> None:
    """Of dependencies and of the users' extras; the standard library and our own packages aside."""
    extras = PROJECT["project"]["optional-dependencies"]
    users = extras.keys() - {"dev", "docs"}
    wanted = [*PROJECT["project"]["dependencies"], *(one for name in users for one in extras[name])]
    names = [re.split(r"[<>=!\[; ]", one, maxsplit=1)[0] for one in wanted]
    declared = {IMPORT_NAMES.get(name, name) for name in names}
    brought = {each for name in names for each in BROUGHT.get(name, ())}
    assert _imported() - brought == declared


def _imported() -> set[str]:
    """Top-level names that our files import, at whatever place."""
    modules = PROJECT["tool"]["setuptools"]["py-modules"]
    ours = {*OURS, *modules}
    files = [path for name in OURS for path in (ROOT / name).rglob("*.py")]
    files += [ROOT / f"{name}.py" for name in modules]
    found: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.split(".")[0])
    return found - ours - sys.stdlib_module_names


def test_security_is_linked_from_the_first_pages():
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text()
    assert "(../SECURITY.md)" in (ROOT / "docs" / "guide.md").read_text()
