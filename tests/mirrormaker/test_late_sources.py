"""A source that begins after a reload: everything about it is as the configuration is then."""

from __future__ import annotations

import io
from pathlib import Path

from mirrormaker.config import from_yaml
from mirrormaker.daemon import Daemon
from mirrormaker.status import StatusLine
from mirrormaker.systemd import Systemd

FILE = """
sources:
- {name: a, zookeeper.connect: 'zk1:2181/a', group.id: g}
target: {metadata.broker.list: 'k:9092', target.version: 0.8.2, compression.codec: CODEC}
mirror: {whitelist: 'a.*', control.socket: none}
"""


def test_the_flow_of_a_source_that_is_joined_after_a_reload_has_the_codec_of_today(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(FILE.replace("CODEC", "none"))
    terminal = StatusLine(io.StringIO(), 80)
    daemon = Daemon(from_yaml(file), lambda: from_yaml(file), terminal=terminal, systemd=Systemd({}, 1))
    try:
        file.write_text(FILE.replace("CODEC", "gzip"))
        assert daemon._reloads.reload().problem == ""
        assert daemon._flow(daemon._sources[0])._rules.codec == "gzip"
    finally:
        daemon._happenings.detach()
        daemon._target.close()
        daemon._tasks.stop(1)
