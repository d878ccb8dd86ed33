"""`mirrormaker sample-config` and `systemd-unit` print what conf/ and systemd/ hold, with paths filled in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mirrormaker import exits
from mirrormaker.commands import samples
from mirrormaker.commands.cli import outcome
from mirrormaker.config import from_yaml

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("mirrormaker")
SERVICES = ["mirrormaker@.service", "mirrormaker-verify@.service", "sparkpipeline-load@.service"]


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    code = outcome(args)
    shown = capsys.readouterr()
    assert (code, shown.err) == (exits.CLEAN, "")
    return shown.out


def test_every_sample_is_listed_with_what_it_is_and_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    header, *rows = printed(capsys, "sample-config", "--list").splitlines()
    assert header.split() == ["name", "about"]
    names = [row.split()[0] for row in rows]
    assert {"mirror", "wan", "load", "pipeline", "consumer.properties", "prometheus/alerts.yml"} <= set(names)
    assert not [name for name in names if name.startswith("docker")]
    assert "mirror One mirror, from a cluster of 0.8 into one of today" in [" ".join(row.split()) for row in rows]
    for name in names:
        file = ROOT / "conf" / (name if "." in name else f"{name}.yaml")
        assert printed(capsys, "sample-config", "--name", name) == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["mirror", "wan", "old-target", "kafka-group", "from-07"])
def test_a_sample_of_a_mirror_is_a_right_configuration(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.yaml").write_text(printed(capsys, "sample-config", "--name", name))
    assert outcome(["check", str(tmp_path / "m.yaml")]) == exits.CLEAN
    assert capsys.readouterr().out.startswith("ok: ")


def test_the_sample_is_for_a_target_of_today_and_shows_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With target.version 0.8.2 a target of 3.9 was written with the protocol of 0.8 for ever, unnumbered."""
    (tmp_path / "m.yaml").write_text(printed(capsys, "sample-config"))
    sample = from_yaml(tmp_path / "m.yaml")
    assert [source.version for source in sample.sources] == [sample.target.version] == [""]
    assert sample.mirror.http_listen is not None
    monkeypatch.setattr(samples.listen, "missing", lambda: "no prometheus-client")
    assert "\n  # http.listen: 9308" in printed(capsys, "sample-config")


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_differs_from_its_file_by_the_paths_only(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "systemd" / name).read_text(encoding="utf-8")
    before, after = text.splitlines(), printed(capsys, "systemd-unit", "--name", name).splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    (said, now_said), (starts, now_starts) = changed
    assert said.startswith("# The command is expected at /usr/local/bin")
    assert now_said == f"# Printed by `mirrormaker systemd-unit` for {COMMAND.parent}."
    assert now_starts == starts.replace("/usr/local/bin/", f"{COMMAND.parent}/")
    assert Path(now_starts.removeprefix("ExecStart=").split()[0]).is_file()


def test_the_unit_names_the_link_that_an_upgrade_and_the_way_back_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "bin" / "mirrormaker"
    link.parent.mkdir()
    monkeypatch.setattr(samples, "EXPECTED", str(link.parent))
    monkeypatch.setattr(sys, "argv", ["mirrormaker"])

    def started(installation: str) -> str:
        program = tmp_path / installation / "bin" / "mirrormaker"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()
        monkeypatch.setattr(samples.sysconfig, "get_path", lambda name: str(program.parent))
        assert outcome(["systemd-unit"]) == exits.CLEAN
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("ExecStart="))

    assert started("old") == f"ExecStart={tmp_path}/old/bin/mirrormaker run /etc/mirrormaker/%i.yaml"  # no link yet
    link.symlink_to(tmp_path / "old/bin/mirrormaker")
    by_link = f"ExecStart={link} run /etc/mirrormaker/%i.yaml"
    assert started("old") == by_link
    assert started("new") == f"ExecStart={tmp_path}/new/bin/mirrormaker run /etc/mirrormaker/%i.yaml"  # leads elsewhere
    link.unlink()
    link.symlink_to(tmp_path / "new/bin/mirrormaker")
    assert started("new") == by_link


def test_a_command_that_was_called_by_a_link_prints_the_link(tmp_path: Path) -> None:
    link = tmp_path / "mirrormaker"
    link.symlink_to(COMMAND)
    done = subprocess.run([link, "systemd-unit"], capture_output=True, text=True, timeout=60, check=True)
    assert f"\nExecStart={link} run /etc/mirrormaker/%i.yaml\n" in done.stdout


@pytest.mark.parametrize("name", ["mirrormaker.target", "mirrormaker-verify@.timer"])
def test_a_unit_that_starts_no_program_is_printed_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "systemd-unit", "--name", name) == (ROOT / "systemd" / name).read_text(encoding="utf-8")


def test_user_and_configuration_are_filled_in_and_systemd_takes_the_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--user", "daemon", "--config", "/srv/with space/%i.yaml"]
    text = printed(capsys, "systemd-unit", *words)
    lines = text.splitlines()
    assert f'ExecStart={COMMAND} run "/srv/with space/%i.yaml"' in lines
    assert "User=daemon" in lines
    assert "DynamicUser=yes" not in lines
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: it would read the unit")
    (tmp_path / "mirrormaker@.service").write_text(text)
    (tmp_path / "mirrormaker.target").write_text(printed(capsys, "systemd-unit", "--name", "mirrormaker.target"))
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "mirrormaker@.service"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_characters_that_systemd_reads_in_a_path_are_quoted() -> None:
    unit = "ExecStart=/usr/local/bin/mirrormaker run /etc/mirrormaker/%i.yaml\n"
    filled = samples.filled(unit, Path('/opt/50% "off"/bin/mirrormaker'))
    assert filled == 'ExecStart="/opt/50%% \\"off\\"/bin/mirrormaker" run /etc/mirrormaker/%i.yaml\n'


def test_what_the_service_could_not_reach_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """ProtectHome=yes of the unit hides home folders."""
    assert outcome(["systemd-unit", "--config", "/home/me/%i.yaml"]) == exits.CLEAN
    assert capsys.readouterr().err.startswith("warning: /home/me/%i.yaml is hidden from the service by ProtectHome=yes")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["sample-config", "--name", "mirorr"], "no sample 'mirorr'; there are consumer.properties, "),
        (["systemd-unit", "--name", "mirrormaker"], "no unit 'mirrormaker'; there are mirrormaker-verify@.service, "),
        (["systemd-unit", "--name", "mirrormaker.target", "--user", "kafka"], "mirrormaker.target starts no program"),
        (["systemd-unit", "--user", "a b"], "--user 'a b' is no user name"),
        (["systemd-unit", "--config", "orders.yaml"], "--config 'orders.yaml' is not absolute"),
    ],
)
def test_a_wrong_name_or_value_is_one_sentence(args: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(args) == exits.USAGE
    shown = capsys.readouterr()
    assert why in shown.err
    assert shown.out == ""


def test_a_program_that_is_not_installed_here_is_named(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(samples.sysconfig, "get_path", lambda name: "/nowhere")
    monkeypatch.setattr(sys, "argv", ["/nowhere/mirrormaker"])
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert outcome(["systemd-unit"]) == exits.STATE_FOLDER
    assert "mirrormaker is not installed beside this Python: it is in none of /nowhere" in capsys.readouterr().err
