"""A mirror whose process can start no more threads (ulimit -u, TasksMax=, pids.max)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormaker import exits
from tests.fewthreads import said

FILE = """
sources:
- {name: a, zookeeper.connect: 'localhost:1/a', group.id: g}
target: {metadata.broker.list: 'localhost:1', target.version: 0.8.2}
mirror: {whitelist: 'a.*', control.socket: none}
"""


@pytest.mark.thorough
def test_a_mirror_that_cannot_have_its_threads_ends_at_the_start_with_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(FILE)
    sentence, code = said(
        f"""
        from pathlib import Path
        from mirrormaker.config import from_yaml
        from mirrormaker.daemon import run_daemon
        os.dup2(1, 2)
        configuration = from_yaml(Path({str(file)!r}))
        no_more_threads()
        code = run_daemon(configuration, lambda: configuration)
        print(code, flush=True)
        """
    )
    assert "no further thread can be started: its user may have 1 processes and threads (ulimit -u)" in sentence
    assert int(code) == exits.TEMPORARY
