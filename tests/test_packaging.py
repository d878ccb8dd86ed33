"""What `pip install .` takes along is what the checkout has."""

import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_of_the_checkout_is_installed():
    tops = {name.split(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]}
    found = {
        ".".join(init.parent.relative_to(ROOT).parts) for top in tops for init in (ROOT / top).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_every_command_is_there():
    for name, where in PROJECT["project"]["scripts"].items():
        module, _, function = where.partition(":")
        assert callable(getattr(import_module(module), function)), name


def test_extras_of_users_are_named_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    for extra in PROJECT["project"]["optional-dependencies"].keys() - {"dev"}:
        assert f"`{extra}`" in readme, extra
