"""The unit file that is shipped: systemd takes it, it is well confined, and its command line is the daemon's own."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mirrormaker import exits

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "systemd"
COMMAND = Path(sys.executable).with_name("mirrormaker")

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def service(name: str = "mirrormaker@.service") -> dict[str, str]:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNITS / name)
    return dict(unit["Service"])


def exec_start(instance: str, folder: Path) -> list[str]:
    """ExecStart's words, with the installed command of this environment and a folder of ours for /etc/mirrormaker."""
    command, *words = shlex.split(service()["ExecStart"])
    assert Path(command).is_absolute()
    assert Path(command).name == COMMAND.name
    return [str(COMMAND), *(w.replace("%i", instance).replace("/etc/mirrormaker", str(folder)) for w in words)]


def copied(folder: Path) -> Path:
    """The units with a command that exists here, so that systemd-analyze can look at it."""
    for unit in UNITS.iterdir():
        text = unit.read_text().replace(service()["ExecStart"].split()[0], str(COMMAND))
        (folder / unit.name).write_text(text)
    return folder / "mirrormaker@.service"


@needs_systemd
def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", copied(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.service")))
def test_every_service_is_well_confined(unit: str, tmp_path: Path) -> None:
    """Exposure of at most 2.0 of 10; a confinement that the program would not survive has its reason in the unit."""
    copied(tmp_path)
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", tmp_path / unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-300:]


@needs_systemd
def test_a_flow_that_is_enabled_starts_after_a_reboot_and_with_all_others(tmp_path: Path) -> None:
    installed = tmp_path / "etc/systemd/system"
    installed.mkdir(parents=True)
    copied(installed)
    command = ["systemctl", f"--root={tmp_path}", "enable", "mirrormaker@orders"]  # as the unit's own comment says
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    for pulls in ("multi-user.target", "mirrormaker.target"):
        link = installed / f"{pulls}.wants" / "mirrormaker@orders.service"
        assert link.is_symlink()
        assert link.readlink().name == "mirrormaker@.service"


def test_the_command_line_of_the_unit_is_one_that_the_daemon_takes(tmp_path: Path) -> None:
    shutil.copy(ROOT / "conf" / "mirror.yaml", tmp_path / "orders.yaml")
    command = exec_start("orders", tmp_path)
    helped = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert command[1] == "run"
    command[1] = "check"  # reads the same command line, and starts nothing
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr


def test_only_exits_that_another_try_may_cure_are_restarted() -> None:
    never = {int(code) for code in service()["RestartPreventExitStatus"].split()}
    assert {exits.USAGE, exits.CONFIGURATION} <= never
    assert not {exits.UNREACHABLE, exits.INTERNAL} & never
    assert service()["Restart"] == "on-failure"


def test_a_stop_that_did_not_drain_is_no_failure_and_otherwise_restarted() -> None:
    unit = service()
    assert unit["SuccessExitStatus"].split() == unit["RestartForceExitStatus"].split() == [str(exits.TEMPORARY)]
    assert str(exits.TEMPORARY) not in unit["RestartPreventExitStatus"].split()


# What MemoryDenyWriteExecute=yes does, by one call: PR_SET_MDWE with PR_MDWE_REFUSE_EXEC_GAIN (Linux 6.3).
DENY_WRITE_EXECUTE = "import ctypes; assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0\n"
COMPILE = "import numba; numba.njit(lambda: 1)()"


@pytest.mark.parametrize("name", ["mirrormaker@.service", "mirrormaker-verify@.service"])
def test_what_the_recipe_installs_runs_under_the_unit(name: str) -> None:
    recipe = (ROOT / "docs" / "mirror.md").read_text().split("## With systemd")[1]
    extras = re.search(r"/pip install '\.\[([\w,]+)\]'", recipe)
    assert extras is not None
    assert "fast" in extras[1].split(",")
    unit = service(name)
    denied = unit.get("MemoryDenyWriteExecute") == "yes"
    program = [sys.executable, "-c", DENY_WRITE_EXECUTE * denied + COMPILE]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    # The folder for what is compiled is one that systemd makes, also for a user that it makes.
    text = (UNITS / name).read_text()
    assert f"\nEnvironment=KAFKAWIRE_CACHE=/var/cache/{unit['CacheDirectory']}\n" in text
