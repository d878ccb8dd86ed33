"""No circles of files: imports for types and late ones counted, which import-linter leaves out."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("groundwork", "kafkawire", "zkconsumer", "producer", "mirrormaker", "sparkpipeline", "localkafka")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_imports_one_that_leads_back_to_it(package: str) -> None:
    files = {_name(path): path for path in (ROOT / package).rglob("*.py")}
    try:
        TopologicalSorter({name: _imported(path, files.keys()) - {name} for name, path in files.items()}).prepare()
    except CycleError as circle:
        pytest.fail(f"{' -> '.join(circle.args[1])}")


@pytest.mark.parametrize("package", ["zkconsumer"])
def test_no_package_imports_one_that_leads_back_to_it(package: str) -> None:
    """The folders of a package, and the files beside them: each counts as one."""
    files = {_name(path): path for path in (ROOT / package).rglob("*.py") if path.parent != ROOT / package}
    files |= {_name(path): path for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"}
    parts: dict[str, set[str]] = {}
    for name, path in files.items():
        part = _part(name)
        parts.setdefault(part, set()).update(_part(other) for other in _imported(path, files.keys()))
    try:
        TopologicalSorter({part: others - {part} for part, others in parts.items()}).prepare()
    except CycleError as circle:
        pytest.fail(f"{' -> '.join(circle.args[1])}")


def _part(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, known: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= modules or {node.module}
    return found & known
