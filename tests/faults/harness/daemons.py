"""Daemons of a row: `mirrormaker run` as processes of their own, and what may be done to one.

Each reaches the source's ZooKeeper through proxies of its own, and has a client id of its own at the target, so that
the wire log tells them apart.  Fail points go into the environment (`env`), limits and namespaces into `prefix`.
"""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from localkafka.errors import LocalKafkaError
from localkafka.ports import HOST
from localkafka.proxy import Proxy
from tests.faults.harness.clusters import Sites
from tests.integration.mirrorprocess import MirrorProcess

SESSION_S = 6.0  # S of the bounds
COMMIT_S = 1.0  # C
FAILPOINTS = "GROUNDWORK_FAILPOINTS"
Options = Mapping[str, Mapping[str, object]]  # section (source, target, mirror) -> its options


class Daemon(MirrorProcess):
    """A daemon of a group; `name` is its client id at the target, too.

    prefix    words before the command: ("prlimit", "--nofile=64:64"), ("unshare", "-rm", "sh", "-c", 'mount …; "$@"')
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        sites: Sites,
        *,
        group: str,
        whitelist: str,
        options: Options | None = None,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, name, env)
        self.name, self.group, self.prefix = name, group, tuple(prefix)
        self.zookeeper_proxies: list[Proxy]
        through, self.zookeeper_proxies = sites.zookeeper_proxies(name)
        wanted = options or {}
        target = sites.target.cluster
        self.settings: dict[str, Any] = {
            "sources": [
                {
                    "name": "source",
                    "zookeeper.connect": through,
                    "group.id": group,
                    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
                    **wanted.get("source", {}),
                }
            ],
            "target": {
                "metadata.broker.list": target.brokers,
                "target.zookeeper.connect": target.zookeeper,
                "target.replication.factor": 3,
                "client.id": name,
                **wanted.get("target", {}),
            },
            "mirror": {
                "whitelist": whitelist,
                "partitioning": "identity",
                "num.streams": 2,
                "offset.commit.interval.ms": int(COMMIT_S * 1000),
                "status.interval.ms": 1000,
                **wanted.get("mirror", {}),
            },
        }
        self.configure()

    def configure(self) -> None:
        """Write .settings into its file."""
        self.file.write_text(yaml.safe_dump(self.settings, sort_keys=False))

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def freeze(self) -> None:
        """SIGSTOP; every thread is stopped at the return."""
        assert self._child is not None
        self._child.pause()

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._child is not None
        self._child.resume()

    def failpoints(self, text: str) -> None:
        """Fail points of the next start, as groundwork.failpoints reads them; "" for none."""
        self.env({FAILPOINTS: text} if text else None)

    def by_name(self) -> None:
        """The next start reaches each server by a name of its own, which machine.c knows, not by its number."""
        numbers = itertools.count(1)
        for section, key in (
            (self.settings["sources"][0], "zookeeper.connect"),
            (self.settings["target"], "target.zookeeper.connect"),
            (self.settings["target"], "metadata.broker.list"),
        ):
            section[key] = re.sub(re.escape(HOST), lambda _: f"server-{next(numbers)}.test", section[key])
        self.configure()

    def wait_killed(self, timeout_s: float = 60) -> None:
        """Wait until a fail point has killed it."""
        code = self.exit_code(timeout_s)
        if code != -signal.SIGKILL:
            raise LocalKafkaError(
                f"{self.name} ended with {code}, not by its fail point; its log ends\n{self.said_last()}"
            )

    def said_since(self, mark: int) -> str:
        """Its log behind a mark, a length of said()."""
        return self.said()[mark:]

    def blackhole(self) -> None:
        """ZooKeeper is out of its reach: connections stay open, nothing passes."""
        for proxy in self.zookeeper_proxies:
            proxy.blackhole()

    def clear(self) -> None:
        """ZooKeeper is in its reach again; what was held back is not delivered."""
        for proxy in self.zookeeper_proxies:
            proxy.reset()
            proxy.clear()

    def close(self) -> None:
        super().close()
        for proxy in self.zookeeper_proxies:
            proxy.close()
