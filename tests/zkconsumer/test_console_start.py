"""Where `zkconsumer consume` begins, said once where it would otherwise wait in silence: against a fake cluster."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.broker import FakeCluster, entry
from zkconsumer.commands.console import Console
from zkconsumer.commands.messageformat import MessageFormat
from zkconsumer.options.config import ConsumerConfig, load_consumer

SAID = "group x1 starts at the end of t, where it has nothing committed; --from-beginning reads what is there\n"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The console is the end of its process: it leaves signals ignored, which later tests' children would inherit."""
    signals, interval = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), sys.getswitchinterval()
    handlers = {number: signal.getsignal(number) for number in signals}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    ("messages", "reset", "named", "said"),
    [
        (3, "largest", True, SAID),
        (3, "smallest", True, ""),
        (3, "largest", False, ""),  # a temporary group prints what arrives from now on
        (0, "largest", True, ""),
    ],
)
def test_a_group_that_starts_at_the_end_of_a_log_with_messages_says_so_once(
    messages: int, reset: str, named: bool, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with FakeCluster({"t": 2}) as cluster:
        for partition in (0, 1):
            for number in range(messages):
                cluster.append("t", partition, entry(b"%d" % number))
        values = {
            "group.id": "x1",
            "partitions": "t:0,1",
            "metadata.broker.list": ",".join(f"{host}:{port}" for host, port in cluster.bootstrap),
            "auto.offset.reset": reset,
            "offsets.file": str(tmp_path / "offsets.json"),
            "fetch.wait.max.ms": 20,
        }
        out = io.BytesIO()
        config = load_consumer(ConsumerConfig, values, "test")
        Console(config, "t", 1, config.version, named=named).run(MessageFormat(), None, 500, out)
        assert capsys.readouterr().err == said
        assert len(out.getvalue().splitlines()) == (2 * messages if reset == "smallest" else 0)
