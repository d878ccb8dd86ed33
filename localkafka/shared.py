"""Clusters shared by several processes: the first user starts them, others attach, the last one to leave ends them.

    FOLDER/start.lock    held while starting or ending the clusters
    FOLDER/users.lock    every user holds it shared until it leaves or dies; the kernel drops the lock of a dead process
    FOLDER/ready.json    exists while the clusters serve: a description of each, ZooKeeper's address, the holder's pid
    FOLDER/log           the holder's log

The clusters run in their own process, the holder (`python -m localkafka.shared FOLDER PLAN [PID]`), since the first
user may leave before the others.  It ends when no process holds users.lock any more, or the process PID has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError, last_lines
from localkafka.waiting import wait_until
from localkafka.workfolder import WorkFolder
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperServer

START_S = 300  # Maven may have to fetch everything first


class Shared:
    """A user's access to shared clusters.

    folder   the same for all users; created and removed here       plan   name -> keyword arguments of Cluster
    watch    pid of a process whose end also ends the clusters (the test run's main process), or 0

    After the start there are .cluster(name), and .zookeeper for other clusters, which need their own chroot.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Mapping[str, Any]], watch: int = 0) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with _locked(folder / "start.lock"):
                fcntl.flock(self._users, fcntl.LOCK_SH)
                if not _ready(folder).exists():
                    self._start(plan, watch)
            described = json.loads(_ready(folder).read_text(encoding="utf-8"))
        except BaseException:
            os.close(self._users)
            raise
        host, port = described["zookeeper"]
        self.zookeeper = ZooKeeperAt((host, port))
        self._clusters = {name: ClusterClient.described(one) for name, one in described["clusters"].items()}

    def cluster(self, name: str) -> ClusterClient:
        return self._clusters[name]

    def close(self) -> None:
        """Leave; the last user to leave ends the clusters."""
        for cluster in self._clusters.values():
            cluster.close()
        os.close(self._users)

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self, plan: Mapping[str, Mapping[str, Any]], watch: int) -> None:
        log = self.folder / "log"
        argv = [sys.executable, "-m", "localkafka.shared", str(self.folder), json.dumps(plan), str(watch)]
        with log.open("ab") as output:
            holder = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

        def ready() -> bool:
            if holder.poll() is not None:
                raise LocalKafkaError(f"the shared clusters could not be started; {log} says:\n{last_lines(log, 20)}")
            return _ready(self.folder).exists()

        try:
            wait_until(ready, START_S, lambda: f"the shared clusters; {log} says:\n{last_lines(log, 20)}")
        except BaseException:
            holder.kill()
            holder.wait()
            raise
        holder.returncode = 0  # do not wait for it: it outlives this process if others use it


def run_clusters(folder: Path, plan: Mapping[str, Mapping[str, Any]], watch: int) -> None:
    """Run the clusters of a plan until they have no users, or the watched process has ended."""
    with contextlib.ExitStack() as running:
        server = ZooKeeperServer(folder / "zookeeper")
        running.callback(WorkFolder(folder).close)
        running.callback(server.close)
        server.start()
        clusters = {name: Cluster(zookeeper=server, chroot=f"/{name}", **wanted) for name, wanted in plan.items()}
        for cluster in clusters.values():
            running.enter_context(cluster)
        described = {
            "holder": os.getpid(),
            "zookeeper": server.address,
            "clusters": {name: cluster.description() for name, cluster in clusters.items()},
        }
        draft = folder / "ready.draft"
        draft.write_text(json.dumps(described), encoding="utf-8")
        draft.replace(_ready(folder))
        while not _deserted(folder) and not (watch and _gone(watch)):
            time.sleep(0.25)
        _ready(folder).unlink(missing_ok=True)


def _deserted(folder: Path) -> bool:
    """True if the clusters have no users; then remove ready.json under the same lock, so that no new user attaches."""
    with _locked(folder / "start.lock"), (folder / "users.lock").open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _ready(folder).unlink()
        return True


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _ready(folder: Path) -> Path:
    return folder / "ready.json"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder, plan, watch = sys.argv[1:]
    run_clusters(Path(folder), json.loads(plan), int(watch))


if __name__ == "__main__":
    main()
