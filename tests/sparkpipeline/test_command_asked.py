"""What audit and backfill are asked for on the command line: what cannot be meant is refused before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest

from groundwork.output import EXIT
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.auditbounds import Limit, Side, look
from sparkpipeline.audit.windows import label
from sparkpipeline.commands.backfill import _request
from sparkpipeline.commands.cli import outcome
from sparkpipeline.errors import OptionRefused, UnknownPartition
from sparkpipeline.source.sourceoptions import checked_options
from tests.fakes.broker import FakeCluster

BOTH = ["--source-brokers", "a:1", "--target-brokers", "b:1"]
ALL = {SOURCE: (Limit(), Limit()), TARGET: (Limit(), Limit())}
NAMED = (
    "source_brokers", "source_zookeeper", "source_protocol", "target_brokers", "target_zookeeper", "target_protocol",
    "topics", "topics_pattern", "partitions", "start", "until", "partitioning", "partitioner", "codec", "chunk",
    "group", "offsets_storage",
)  # fmt: skip
NOTHING: dict[str, Any] = dict.fromkeys(NAMED) | {"shared": False, "source_option": (), "target_option": ()}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (BOTH, "option=--topics: or --topics-pattern selects the topics"),
        ([*BOTH, "--topics", "a", "--topics-pattern", "b"], "option=--topics: or --topics-pattern"),
        (["--source-brokers", "a:1"], "option=--files: give a target to compare with"),
        (["--source-brokers", "a:1", "--files", "/x", "--topics-pattern", "a"], "option=--topics-pattern: has no"),
        (["--source-brokers", "a:1", "--files", "/x", "--from", "{}"], "option=--from: has no effect"),
        (["--source-brokers", "a:1", "--files", "/x", "--target-to", "{}"], "option=--target-to: has no effect"),
        (["--source-brokers", "a:1", "--files", "/x", "--target-option", "a=b"], "option=--target-option: has no"),
    ],
)
def test_an_audit_that_contradicts_itself_is_refused(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(["audit", *args]) == EXIT["usage"]
    assert says in capsys.readouterr().err


def side(cluster: FakeCluster, **chosen: str) -> Side:
    brokers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
    return Side.of({"kafka.bootstrap.servers": brokers, "protocol": "0.8", **(chosen or {"subscribe": "t"})})


def test_a_cluster_is_not_compared_with_itself() -> None:
    with FakeCluster({"t": 1}) as one:
        with pytest.raises(OptionRefused, match="source and target are one cluster: "):
            look({SOURCE: side(one), TARGET: side(one)}, ALL)
        named = Limit(offsets={})
        with pytest.raises(OptionRefused, match="says no offset of"):  # other offsets of it can be meant
            look({SOURCE: side(one), TARGET: side(one)}, {SOURCE: (named, named), TARGET: (named, named)})


def test_an_audit_of_nothing_is_no_equality() -> None:
    chosen = {"subscribePattern": "^(?:ordes)$"}
    with FakeCluster({"orders": 1}) as one, FakeCluster({"orders": 1}) as other:
        sides = {SOURCE: side(one, **chosen), TARGET: side(other, **chosen)}
        with pytest.raises(UnknownPartition, match="the source has no topics like"):
            look(sides, ALL)


def test_a_pattern_of_a_backfill_is_the_whole_name_of_a_topic() -> None:
    request, _ = _request({**NOTHING, "source_brokers": "a:1", "target_brokers": "b:1", "topics_pattern": "a|orders"})
    assert request is not None
    pattern = checked_options(request.source, streaming=False).subscription.pattern
    assert pattern is not None
    names = ["orders", "a", "old-orders", "orders-2", "aa"]
    assert [name for name in names if pattern.found_in(name)] == ["orders", "a"]


def test_secrets_and_whom_they_are_for_ask_for_nothing_new() -> None:
    given = {"target_brokers": "b:1", "target_option": ("kafka.sasl.password=hush", "kafka.security.protocol=SASL_SSL")}
    asked, secrets = _request({**NOTHING, **given})
    assert asked is None
    assert secrets.target["kafka.bootstrap.servers"] == "b:1"
    asked, _ = _request({**NOTHING, **given, "codec": "none"})
    assert asked is not None


def test_an_hour_that_is_in_no_calendar_has_its_number() -> None:
    assert label(0) == "1970-01-01T00"
    assert label((1 << 62) // 3_600_000) == f"hour {(1 << 62) // 3_600_000} since 1970"
    assert label(100_000_000) == "hour 100000000 since 1970"
