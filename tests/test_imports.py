"""No circles of files: imports for types and late ones counted, which import-linter leaves out."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# zkconsumer and sparkpipeline still have some
PACKAGES = ("groundwork", "kafkawire", "producer", "mirrormaker", "localkafka")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_imports_one_that_leads_back_to_it(package: str) -> None:
    files = {_name(path): path for path in (ROOT / package).rglob("*.py")}
    try:
        TopologicalSorter({name: _imported(path, files.keys()) - {name} for name, path in files.items()}).prepare()
    except CycleError as circle:
        pytest.fail(f"{' -> '.join(circle.args[1])}")


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
