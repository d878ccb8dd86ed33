"""docs/api.md lists what programs may import: each name exists, and whatever the pages and examples import is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from tests.cases import each
from tests.docpages import PAGES, blocks, text_of

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `([\w.]+)` \| (.*) \|$", re.MULTILINE)
PACKAGES = (
    "groundwork",
    "kafkawire",
    "zkconsumer",
    "groupadmin",
    "producer",
    "mirrormaker",
    "sparkpipeline",
    "localkafka",
)
LISTED = {module: re.findall(r"`(\w+)`", names) for module, names in ROW.findall(text_of("api.md"))}
WITHOUT_DOCSTRING = {"NONE", "DDL", "DROP", "Handler", "entries"}  # values and types, explained where they are made


@each("module", LISTED)
def test_listed_names_exist_with_a_docstring_each_in_order(module: str) -> None:
    names = LISTED[module]
    assert names == sorted(names)
    found = import_module(module)
    for name in names:
        try:
            value = getattr(found, name)
        except AttributeError:  # a module of a package
            value = import_module(f"{module}.{name}")
        assert name in WITHOUT_DOCSTRING or value.__doc__, name


@each("package", ["zkconsumer", "producer"])
def test_what_a_package_offers_is_listed(package: str) -> None:
    assert LISTED[package] == sorted(import_module(package).__all__)


@each("module", [name for name in LISTED if name.endswith(".errors")])
def test_every_exception_of_a_listed_module_is_listed(module: str) -> None:
    """What a program catches: an error that is added has to be found here."""
    found = import_module(module)
    own = {
        name for name, value in vars(found).items()
        if isinstance(value, type) and issubclass(value, Exception)
        and value.__module__ == module and not name.startswith("_")
    }  # fmt: skip
    assert own == set(LISTED[module])


def imports(program: str) -> Iterator[tuple[str, str]]:
    """Module and name of what a program imports from our packages; a whole module is named *."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "*") for each in node.names if each.name.split(".")[0] in PACKAGES)


def programs() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield from ((str(block), block.text) for block in blocks(page) if block.language == "python")
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield f"examples/{path.name}", path.read_text(encoding="utf-8")


def test_the_pages_and_examples_import_only_what_is_listed() -> None:
    shown = [(where, *found) for where, program in programs() for found in imports(program)]
    assert len(shown) > 30
    assert [each for each in shown if each[2] not in LISTED.get(each[1], ())] == []


OWN = {"consumer.md": "zkconsumer", "consumer-workers.md": "zkconsumer", "offsets-in-a-database.md": "zkconsumer",
       "producer.md": "producer"}  # fmt: skip


def exceptions_named(page: str) -> Iterator[str]:
    """Names of exceptions of ours that a page has in backticks, wherever they are defined."""
    sources = [(ROOT / package).rglob("*.py") for package in ("groundwork", "kafkawire", OWN[page])]
    defined = {
        node.name: ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for paths in sources for path in paths for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }  # fmt: skip
    for name in sorted(set(re.findall(r"`([A-Z][a-z]\w+)(?:[.(][^`]*)?`", text_of(page)))):
        if name in defined and issubclass(getattr(import_module(defined[name]), name), Exception):
            yield name


@each("page", OWN)
def test_every_exception_that_a_page_names_is_imported_from_the_package_it_is_about(page: str) -> None:
    named = list(exceptions_named(page))
    assert named
    assert [name for name in named if name not in import_module(OWN[page]).__all__] == []


@each(("page", "of"), [("consumer.md", "ConsumerConnector"), ("producer.md", "Producer")])
def test_a_completion_offers_what_the_page_shows(page: str, of: str) -> None:
    offered = [name for name in dir(getattr(import_module(OWN[page]), of)) if not name.startswith("_")]
    text = text_of(page) + text_of("consumer-workers.md")
    assert [name for name in offered if not re.search(rf"\b{name}\b", text)] == []
