"""Connect strings of ZooKeeper: one parser, for every option and every command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from groundwork.options import OptionError, load
from groundwork.zkconnect import Connect, connect_or_none, parse_connect
from mirrormaker.options import TargetOptions
from producer.config import ProducerConfig
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.sink.sinkoptions import SinkOptions
from sparkpipeline.source.sourceoptions import SourceOptions
from zkconsumer.commands.cli import cli
from zkconsumer.options.config import ConsumerConfig


@pytest.mark.parametrize(
    ("text", "servers", "chroot", "plain"),
    [
        ("zk1:2181", [("zk1", 2181)], "", "zk1:2181"),
        ("zk1", [("zk1", 2181)], "", "zk1"),
        (" zk1:2181 , zk2:2182/kafka ", [("zk1", 2181), ("zk2", 2182)], "/kafka", "zk1:2181,zk2:2182/kafka"),
        ("zk1:2181,zk2:2181,/kafka/one/", [("zk1", 2181), ("zk2", 2181)], "/kafka/one", "zk1:2181,zk2:2181/kafka/one"),
        ("zk1:2181/", [("zk1", 2181)], "", "zk1:2181"),
        ("[::1]:2182,[fe80::1%eth0]", [("::1", 2182), ("fe80::1%eth0", 2181)], "", "[::1]:2182,[fe80::1%eth0]"),
        ("10.0.0.1:2181", [("10.0.0.1", 2181)], "", "10.0.0.1:2181"),
    ],
)
def test_a_connect_string_is_its_servers_and_its_chroot(
    text: str, servers: list[tuple[str, int]], chroot: str, plain: str
) -> None:
    assert parse_connect(text) == Connect(tuple(servers), chroot, plain)
    assert parse_connect(plain).text == plain


WRONG = {
    "zk1;zk2": "with commas between hosts and not ';'",
    "zk1:2181 zk2:2181": "without blanks or a comment in it, and 'zk1:2181 zk2:2181' has one",
    "zk1:99999": "port '99999' of 'zk1:99999' is not a number from 1 to 65535",
    "zk1:": "port '' of 'zk1:' is not a number",
    "zk1:x": "port 'x'",
    "zk1:2181/kafka,zk2:2181/kafka": "the chroot once, behind the last host: zk1:2181,zk2:2181/kafka",
    "zk1:2181/kafka // the old one": "without blanks or a comment in it, and '/kafka // the old one' has one",
    "zk1:2181 # old": "without blanks or a comment",
    "zookeeper://zk1:2181": "without zookeeper://",
    '"zk1:2181"': "without quotes",
    "'zk1:2181/kafka'": "without quotes",
    "::1:2181": "an IPv6 host goes into brackets",
    "zk1:2181:9092": "more than one colon",
    "/kafka": "no host is in front of the path",
    ":2181": "':2181' names no host",
    "zk1:2181/a//b": "'/a//b' is not a path of ZooKeeper",
    "zk1:2181/../b": "is not a path of ZooKeeper",
    "  ": "and it is empty",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_what_no_zookeeper_is_found_by_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^host:port,host:port/chroot, ") as wrong:
        parse_connect(text)
    assert said in str(wrong.value)


def test_none_may_be_said_where_it_is_optional() -> None:
    assert connect_or_none(" ") == ""


@pytest.mark.parametrize(
    ("cls", "key"),
    [
        (ConsumerConfig, "zookeeper.connect"),
        (ProducerConfig, "zookeeper.connect"),
        (TargetOptions, "target.zookeeper.connect"),
        (LoadConfig, "zookeeper.connect"),
        (SourceOptions, "zookeeper.connect"),
        (SinkOptions, "zookeeper.connect"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_every_option_that_is_a_connect_string_is_parsed(cls: type, key: str) -> None:
    with pytest.raises(OptionError) as wrong:
        load(cls, {key: "zk1;zk2"}, "f")
    assert f"f: option '{key}' is 'zk1;zk2', expected host:port,host:port/chroot, with commas" in str(wrong.value)


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "-z", "zk1;zk2"],
        ["lag", "--group", "g", "-z", "zk1;zk2"],
        ["groups", "list", "-z", "zk1;zk2"],
        ["offsets", "translate", "--group", "g", "--source", "zk1;zk2", "-b", "b:1"],
        ["consume", "orders", "-z", "zk1;zk2"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_parses_what_it_is_given(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert "is 'zk1;zk2', expected host:port,host:port/chroot, with commas between hosts" in done.output


def test_a_file_of_the_newest_consumer_says_where_zookeeper_is(tmp_path: Path) -> None:
    """A key that is none here stopped every command that was told --zk-config."""
    from zkconsumer.commands.zkconfig import read_values, zookeeper_of

    file = tmp_path / "c.properties"
    file.write_text("zookeeper.connect=zk1:2181/k/\nmax.poll.records=5\nacks=all\ngroup.id=g\n")
    found = zookeeper_of(None, *(read_values(file)[:1]), file.name, True)
    assert found is not None
    assert found.connect == "zk1:2181/k"
