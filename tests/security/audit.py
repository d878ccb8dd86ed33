"""Known vulnerabilities of the packages that are installed here, as pip-audit has them: `make audit`.

    0   none is known        1   some are, a line each        2   they cannot be asked for, all or some: a sentence

pip-audit has an environment of its own (.audit): it brings a hundred packages that nothing here imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / ".audit"
WANTED = "pip-audit>=2.7,<3"
ASK_S = 15
SETUP_S, AUDIT_S = 300, 600


def main() -> int:
    try:
        program = installed()
        done = subprocess.run(
            [program, "--path", sysconfig.get_paths()["purelib"], "--skip-editable", "--format", "json",
             "--progress-spinner", "off", "--timeout", str(ASK_S)],
            capture_output=True, text=True, timeout=AUDIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as failed:
        print(f"audit: pip-audit cannot be installed: {last_line(getattr(failed, 'stderr', '') or str(failed))}")
        return 2
    return said(done.stdout, done.stderr)


def installed() -> str:
    """The program, installed on first use.  Raises OSError, SubprocessError."""
    program = FOLDER / "bin" / "pip-audit"
    if not program.exists():
        venv.create(FOLDER, with_pip=True)
        subprocess.run(
            [FOLDER / "bin" / "pip", "install", "-q", WANTED],
            check=True,
            capture_output=True,
            text=True,
            timeout=SETUP_S,
        )
    return str(program)


def said(out: str, err: str) -> int:
    """Print what pip-audit found; the exit code."""
    try:
        packages = json.loads(out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        print(f"audit: the service of pip-audit cannot be reached: {last_line(err)}")
        return 2
    asked = [package for package in packages if "editable" not in str(package.get("skip_reason", ""))]
    known = [package for package in asked if "skip_reason" not in package]
    if not known:
        print(f"audit: the service of pip-audit answers for none of {len(asked)} packages, say behind a mirror of PyPI")
        return 2
    found = list(lines(known))
    left = ", ".join(str(package["name"]) for package in asked if "skip_reason" in package)
    print("\n".join(found) if found else f"audit: no known vulnerability in {len(known)} packages")
    if left:
        print(f"audit: not looked up: {left}")
    return 1 if found else 2 if left else 0


def lines(packages: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each vulnerability."""
    for package in packages:
        for each in package["vulns"]:
            mended = f"mended in {', '.join(each['fix_versions'])}" if each["fix_versions"] else "not mended yet"
            yield f"audit: {package['name']} {package['version']}: {each['id']}, {mended}"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")[:300]


if __name__ == "__main__":
    sys.exit(main())
