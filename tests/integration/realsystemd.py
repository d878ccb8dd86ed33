"""A systemd of a test's own: the real one as first process of a PID namespace, with folders that go with it.

Runs where it is asked for (SYSTEMD_TESTS=1) and root may make namespaces, which `why_not` tries.  It knows the units
that a test gives it and none of the system's, which would set up this machine (and empty /tmp): their folders are
hidden, /tmp is another one, and all else but the test's own folder is read-only.  Nothing of it stays: /run and parts
of /var are file systems in memory of a mount namespace, and its processes and their cgroup end with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from localkafka.waiting import wait_until

ASKED_FOR = "SYSTEMD_TESTS"
PROGRAM = "/usr/lib/systemd/systemd"
NAMESPACES = ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--cgroup", "--uts", "--ipc"]
FOLDERS = ("/run", "/var/lib", "/var/cache", "/var/log")
HIDDEN = (
    *(
        f"/{where}/systemd/{what}"
        for where in ("usr/lib", "lib", "usr/local/lib", "etc")
        for what in ("system", "user")
    ),
    *(f"/{where}/tmpfiles.d" for where in ("usr/lib", "lib", "usr/local/lib", "etc")),
    "/usr/lib/systemd/system-generators",
    "/usr/lib/systemd/system-environment-generators",
    "/etc/init.d",
)
STUBS = ("idle", "sysinit", "basic", "sockets", "timers", "paths", "slices", "network-online", "shutdown", "multi-user")
CONFIGURATION = "/run/configuration"  # inside
BEGIN = """
set -e
mount --make-rprivate /
for folder in {folders}; do mount -t tmpfs tmpfs $folder; done
for folder in {hidden}; do test ! -d $folder || mount -t tmpfs tmpfs $folder; done
for folder in /usr/lib /lib; do test ! -e $folder/systemd/system/sysinit.target; done
mkdir /run/own && mount --bind {own} /run/own
mount -t tmpfs tmpfs /tmp
mkdir -p {own} && mount --bind /run/own {own}
for folder in / /dev /home /root; do ! mountpoint -q $folder || mount -o remount,bind,ro $folder; done
! touch /usr/lib/systemd/.probe 2>/dev/null
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd/system /run/lock {inside}
cp {units}/* /run/systemd/system/
cp {configuration}/* {inside}/
exec env -i container=lxc PATH="$PATH" {program} --system --unit=idle.target --log-target=kmsg --show-status=0
"""


def why_not() -> str:
    """Why no systemd can run here; "": it can."""
    if os.environ.get(ASKED_FOR) != "1":
        return f"not asked for: {ASKED_FOR}=1, as root, on a machine that nothing else needs meanwhile"
    if os.geteuid() != 0:
        return "only root makes the namespaces of a systemd"
    missing = [each for each in (PROGRAM, "unshare", "nsenter", "systemctl") if shutil.which(each) is None]
    if missing:
        return f"{', '.join(missing)}: not installed"
    if cgroups() is None:
        return "there is no cgroup2 file system"
    tried = ["unshare", *NAMESPACES, "sh", "-c", "umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup"]
    done = subprocess.run(tried, capture_output=True, text=True, timeout=30)
    return "" if done.returncode == 0 else f"namespaces cannot be made: {done.stderr.strip()}"


def cgroups() -> Path | None:
    """Where the cgroup2 file system is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


class RealSystemd:
    """units: their texts by file name; configuration: those of files in CONFIGURATION."""

    def __init__(self, folder: Path, units: Mapping[str, str], configuration: Mapping[str, str]) -> None:
        self._folder = folder
        stub = "[Unit]\nDescription=Nothing\nDefaultDependencies=no\n"
        self._units = {**{f"{name}.target": stub for name in STUBS}, **units}
        self._configuration = configuration
        root = cgroups()
        assert root is not None
        self._group = root / f"mirrormaker-test-{uuid.uuid4().hex}"
        self._outer: subprocess.Popen[bytes] | None = None
        self._first = 0  # the process that is systemd, as this namespace counts

    def __enter__(self) -> Self:
        for name, texts in (("units", self._units), ("configuration", self._configuration)):
            (self._folder / name).mkdir()
            for file, text in texts.items():
                (self._folder / name / file).write_text(text)
        script = BEGIN.format(
            folders=" ".join(FOLDERS),
            hidden=" ".join(HIDDEN),
            own=self._folder,
            units=self._folder / "units",
            configuration=self._folder / "configuration",
            inside=CONFIGURATION,
            program=PROGRAM,
        )
        self._group.mkdir()
        command = f'echo $$ > {self._group}/cgroup.procs && exec unshare {" ".join(NAMESPACES)} bash -c "$0"'
        with (self._folder / "systemd.log").open("wb") as log:
            self._outer = subprocess.Popen(
                ["bash", "-c", command, script], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_until(self._up, 30, lambda: f"systemd to run: {(self._folder / 'systemd.log').read_text()}")
        return self

    def _up(self) -> bool:
        assert self._outer is not None
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        self._first = int(children[0]) if children else 0
        return bool(self._first) and self.run("systemctl", "is-system-running").stdout.strip() in (
            "running",
            "degraded",
        )

    def run(self, *command: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command beside systemd."""
        inside = ["nsenter", "--target", str(self._first), "--mount", "--pid", "--cgroup", "--uts", "--ipc", *command]
        return subprocess.run(inside, capture_output=True, text=True, timeout=timeout_s)

    def systemctl(self, *words: str, check: bool = True) -> str:
        done = self.run("systemctl", *words)
        assert not check or done.returncode == 0, f"systemctl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.systemctl("show", "--value", "-p", name, unit)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._outer is not None:
            self._outer.kill()  # and with it the first process of the namespace, and so all others
            self._outer.wait()
        with contextlib.suppress(OSError):
            wait_until(lambda: not (self._group / "cgroup.events").read_text().startswith("populated 1"), 10, "its end")
        for group in sorted(self._group.rglob("*/"), key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):
                group.rmdir()
        with contextlib.suppress(OSError):
            self._group.rmdir()
