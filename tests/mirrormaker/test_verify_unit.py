"""The unit and the timer of `mirrormaker verify`: systemd takes them, and their command line is the command's own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from pathlib import Path

from groundwork.output import DAEMON_EXIT
from mirrormaker import exits
from mirrormaker.commands.cli import cli
from tests.mirrormaker.test_mirror_unit import COMMAND, ROOT, UNITS, needs_systemd, service

UNIT = "mirrormaker-verify@.service"


def copied(folder: Path) -> list[Path]:
    """Both with a command that exists here, so that systemd-analyze can look at it."""
    found = []
    for kind in ("service", "timer"):
        text = (UNITS / f"mirrormaker-verify@.{kind}").read_text()
        found.append(folder / f"mirrormaker-verify@orders.{kind}")
        found[-1].write_text(text.replace("/usr/local/bin/mirrormaker", str(COMMAND)))
    return found


@needs_systemd
def test_systemd_has_nothing_to_say_about_the_unit_and_its_timer(tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *copied(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
def test_the_unit_is_well_confined(tmp_path: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", copied(tmp_path)[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-300:]


def test_the_unit_runs_the_command_with_options_that_it_takes(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conf" / "mirror.yaml", tmp_path / "orders.yaml")
    options = "--since 26h"
    assert f'Environment="VERIFY_OPTIONS={options}"' in (UNITS / "mirrormaker-verify@.service").read_text()
    line = service(UNIT)["ExecStart"].replace("%i", "orders").replace("/etc/mirrormaker", str(tmp_path))
    words = shlex.split(line.replace("$VERIFY_OPTIONS", options))
    assert words[0] == "/usr/local/bin/mirrormaker"
    assert words[1] == "verify"
    verify = cli.imported("verify")
    assert verify is not None
    taken = verify.make_context("verify", words[2:]).params
    assert taken["file"] == tmp_path / "orders.yaml"
    assert taken["since"] < time.time_ns() // 1_000_000 - 25 * 3_600_000


def test_differences_fail_the_unit_and_only_what_another_try_may_cure_is_tried_again() -> None:
    never = {int(code) for code in service(UNIT)["RestartPreventExitStatus"].split()}
    assert never == {
        exits.DIFFERENCE,
        exits.USAGE,
        exits.INTERNAL,
        exits.STATE_FOLDER,
        exits.PERMISSION,
        exits.CONFIGURATION,
    }
    assert not {exits.UNREACHABLE, exits.TEMPORARY} & never
    assert "SuccessExitStatus" not in service(UNIT)
    assert exits.DIFFERENCE == 4
    assert exits.DIFFERENCE not in DAEMON_EXIT.values()
