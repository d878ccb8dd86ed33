"""What the images install, with hashes: `make requirements` writes conf/docker/requirements/NAME.txt.

    build      what builds the wheel of this project, and packages that are published as source only
    base       what the project itself needs        metrics, fast, spark     what an extra adds to it

pip chooses versions by the ranges of pyproject.toml and names the hash of each file that it would take, for each
platform of the images.  These are files of requirements, not of constraints: pip takes no hash from constraints.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "conf" / "docker" / "requirements"
MACHINES = ("x86_64", "aarch64")
GLIBC = range(17, 37)  # minor versions of glibc 2 that wheels name; Debian 12 has 2.36
HEAD = "# Made by `make requirements` (tests/security/requirements.py): versions, and hashes of their files.\n"
EXTRAS = ("metrics", "fast", "spark")
SOURCE_BUILDS = ["wheel"]  # for packages without a wheel (pyspark), beside the build system
PIP_S = 1800
Pins = dict[str, str]


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    base, extras = project["project"]["dependencies"], project["project"]["optional-dependencies"]
    FOLDER.mkdir(exist_ok=True)
    write("build", chosen([*project["build-system"]["requires"], *SOURCE_BUILDS]))
    # All at once, so that a package has the same release in every file; then which of them belong to an extra.
    pins = chosen([*base, *(each for extra in EXTRAS for each in extras[extra])])
    exact = [f"{name}=={version}" for name, version in pins.items()]
    needed = {extra: chosen([*base, *extras[extra]], exact).keys() for extra in EXTRAS}
    known = chosen(base, exact).keys()
    write("base", {name: pins[name] for name in known})
    for extra in EXTRAS:
        write(extra, {name: pins[name] for name in needed[extra] - known})
    return 0


def chosen(wanted: Iterable[str], constraints: Iterable[str] = ()) -> Pins:
    """Versions by name, of all that is installed for these."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(constraints))
        file.flush()
        return {each["metadata"]["name"]: each["metadata"]["version"] for each in report(["-c", file.name, *wanted])}


def write(name: str, pins: Pins) -> None:
    hashes: dict[str, set[str]] = {each: set() for each in pins}
    exact = [f"{each}=={version}" for each, version in pins.items()]
    for machine in MACHINES:
        platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC]
        with tempfile.TemporaryDirectory() as folder:
            target = ["--no-deps", f"--python-version={python()}", f"--target={folder}", *platforms]
            for each in report([*target, f"--platform=manylinux2014_{machine}", *exact]):
                hashes[each["metadata"]["name"]].add(each["download_info"]["archive_info"]["hashes"]["sha256"])
    lines = [
        " \\\n    ".join([f"{each}=={pins[each]}", *(f"--hash=sha256:{one}" for one in sorted(hashes[each]))]) + "\n"
        for each in sorted(pins, key=str.lower)
    ]
    (FOLDER / f"{name}.txt").write_text(HEAD + "".join(lines), encoding="utf-8")
    print(f"{name}: {len(pins)} packages", flush=True)


def python() -> str:
    """The Python of the base image."""
    found = re.search(r"^ARG BASE=python:([\d.]+)-", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def report(arguments: list[str]) -> list[dict[str, Any]]:
    """What pip would install, as pip reports it, whatever is installed here."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", file.name, *arguments], check=True, timeout=PIP_S)
        found: list[dict[str, Any]] = json.load(file)["install"]
        return found


if __name__ == "__main__":
    sys.exit(main())
