"""docs/producer.md: its Python runs, and its commands and options are there."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from groundwork.options import specs
from producer.config import ProducerConfig
from producer.console import main as zkproducer
from tests.fakes.broker import FakeCluster

PAGE = (Path(__file__).parents[2] / "docs" / "producer.md").read_text(encoding="utf-8")


def test_its_examples_run_and_everything_they_send_arrives():
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with FakeCluster({"orders": 2, "logs": 1}) as cluster:
        address = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        exec(first.replace("broker1:9092", address), {})
        assert sum(len(cluster.values("orders", p)) for p in range(2)) == 8
        root = logging.getLogger()
        before = list(root.handlers)
        exec(second.replace("broker1:9092", address), {})
        (handler,) = [one for one in root.handlers if one not in before]
        logging.getLogger("shop").error("sold out")
        root.removeHandler(handler)
        handler.close()
        assert cluster.values("logs", 0) == [b"sold out"]


def test_the_options_that_it_names_are_there():
    known = {spec.key for spec in specs(ProducerConfig).values()}
    known |= {name for spec in specs(ProducerConfig).values() for name in spec.old}
    for option in (
        "serializer.class",
        "unkeyed.partitioner",
        "callback.handler",
        "event.handler",
        "reconnect.interval",
    ):
        assert f"`{option}`" in PAGE
        assert option in known
    flags = {flag for parameter in zkproducer.params for flag in parameter.opts}
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= flags
