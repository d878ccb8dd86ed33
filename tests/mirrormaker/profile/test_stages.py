"""Which stage a call stack belongs to; the innermost frame comes first."""

from __future__ import annotations

import pytest

from mirrormaker.profile.bottleneck import stage_of, waits_of

HUB = [("gevent.hub", "run")]
CARRY = [("mirrormaker.flow", "_forward"), ("mirrormaker.flow", "carry"), ("groundwork.tasks", "_run"), *HUB]
FETCHER = [("zkconsumer.fetching.brokerfetcher", "run"), ("groundwork.tasks", "_run"), *HUB]


@pytest.mark.parametrize(
    ("stack", "stage"),
    [
        (HUB, "idle"),
        ([], "idle"),
        (FETCHER, "fetch"),
        ([("kafkawire.net.transport", "receive_into"), ("kafkawire.net.link", "call"), *FETCHER], "receive"),
        ([("gevent._socketcommon", "recv_into"), ("kafkawire.net.link", "call"), *FETCHER], "receive"),
        ([("zlib", "crc32"), ("kafkawire.formats.v01.scan", "scan"), *FETCHER], "scan"),
        ([("kafkawire.compression", "decompress"), ("kafkawire.formats.v01.read", "x"), *FETCHER], "scan"),
        (CARRY, "route"),
        ([("kafkawire.formats.v01.write", "encode"), ("producer.conversion", "by_columns"), *CARRY], "route"),
        ([("json.decoder", "decode"), ("users.code", "f"), ("mirrormaker.handler", "handled"), *CARRY], "handler"),
        ([("users.code", "f"), ("mirrormaker.sethandler", "place"), *CARRY], "handler"),
        ([("kafkawire.net.link", "send"), ("producer.connection", "_send"), *HUB], "produce"),
        ([("producer.sender", "submit"), *CARRY], "produce"),
        ([("zkconsumer.session.zkcalls", "set"), ("zkconsumer.offsets.zookeeper", "commit"), *HUB], "ZooKeeper"),
        ([("zkconsumer.offsets.commits", "commit"), ("zkconsumer.engine.engine", "run"), *HUB], "commit"),
        ([("kazoo.protocol.connection", "_read"), *HUB], "ZooKeeper"),
        ([("mirrormaker.reporter", "report"), ("mirrormaker.status", "run"), *HUB], "other"),
        ([("users.code", "timer"), *HUB], "other"),
        ([("kazooish", "x"), *HUB], "other"),  # a package, not a beginning of its name
    ],
)
def test_the_innermost_owner_decides(stack: list[tuple[str, str]], stage: str) -> None:
    assert stage_of(stack) == stage


@pytest.mark.parametrize(
    ("stack", "stage"),
    [
        ([("gevent.hub", "switch"), ("users.code", "f"), ("mirrormaker.handler", "handled"), *CARRY], "handler"),
        ([("zkconsumer.session.zkcalls", "set"), ("zkconsumer.offsets.commits", "commit_locked"), *HUB], "commit"),
        ([("zkconsumer.session.zkcalls", "get"), ("zkconsumer.group.claimactions", "read"), *HUB], "ZooKeeper"),
        ([("gevent.hub", "switch"), ("zkconsumer.offsets.commits", "run"), *HUB], ""),  # it waits for its turn
        ([("gevent.hub", "switch"), *FETCHER], ""),
    ],
)
def test_a_wait_belongs_to_the_stage_that_waits(stack: list[tuple[str, str]], stage: str) -> None:
    assert waits_of(stack) == stage
