"""Commands and mirror at a ZooKeeper that asks who they are, and what a throwaway group leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from groundwork.options import Secret, load
from groundwork.zksecurity import ZkSecurity, ZooKeeper
from groupadmin.commands import dropin
from kafkawire.model import Broker
from localkafka.client import started_client
from mirrormaker.options import TargetOptions
from mirrormaker.probe import probe_target_zookeeper
from zkconsumer.commands.cli import outcome
from zkconsumer.commands.options import AUTH_VARIABLE
from zkconsumer.commands.temporarygroup import removed_after, temporary_name
from zkconsumer.errors import ConsumerError

pytestmark = pytest.mark.real
ANN = "digest:ann:s3cret"
CLOSED = make_digest_acl("ann", "s3cret", all=True)


@pytest.fixture
def home(zk_server, unique) -> Iterator[str]:
    """A ZooKeeper with a chroot of the test's own, as a connect string."""
    zk = started_client(zk_server.connect)
    zk.add_auth("digest", "ann:s3cret")
    zk.create(unique.chroot)
    try:
        yield f"{zk_server.connect}{unique.chroot}"
    finally:
        zk.delete(unique.chroot, recursive=True)
        zk.stop()
        zk.close()


@pytest.fixture
def ann(home: str) -> Iterator[KazooClient]:
    """Ann's client at home, where one broker is registered that nobody reaches."""
    zk = started_client(home)
    zk.add_auth("digest", "ann:s3cret")
    zk.create("/brokers/ids/1", b'{"host":"127.0.0.1","port":9}', makepath=True)
    zk.create("/brokers/topics/t", b'{"partitions":{"0":[1]}}', makepath=True)
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


def run(*args: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name != AUTH_VARIABLE}
    command = [sys.executable, "-m", "zkconsumer.commands.main", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env={**known, **environment})
    assert "Traceback" not in done.stderr, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def test_each_command_reads_what_is_closed_to_others(home: str, ann: KazooClient, tmp_path: Path):
    ann.create("/consumers/g/offsets/t/0", b"7", acl=[CLOSED], makepath=True)
    ann.create("/consumers/g/ids", b"", acl=[CLOSED])
    closed = run("groups", "members", "-z", home, "--group", "g", code=1)
    assert closed.stderr.count("\n") == 1
    assert "closed to us" in closed.stderr
    file = tmp_path / "consumer.properties"
    file.write_text(f"zookeeper.connect={home}\ngroup.id=g\nzookeeper.auth={ANN}\n")
    assert run("groups", "list", "--zk-config", str(file), "-o", "csv").stdout == "group,members,topics\ng,0,1\n"
    assert "t,0,,7,," in run("groups", "describe", "-z", home, "--zk-auth", ANN, "--group", "g", "-o", "csv").stdout
    assert "g,0,1,,1" in run("lag", "-z", home, "-o", "csv", **{AUTH_VARIABLE: ANN}).stdout
    run("verify-rebalance", "g", "-z", home, "--zk-auth", ANN)
    ann.set_acls("/brokers/ids/1", [CLOSED])
    run("brokers", "-z", home, code=1)
    assert "127.0.0.1,9" in run("brokers", "-z", home, "--zk-auth", ANN, "-o", "csv").stdout
    one = run("consume", "--topic", "t", "--partition", "0", "--zk-config", str(file), code=1)
    assert "Connection refused" in one.stderr


READERS_OF_MANY = (
    ["groups", "list"],
    ["lag"],
    ["offsets", "get", "--group", ".*", "--regex"],
    ["offsets", "export"],
    ["offsets", "export", "-o", "csv"],
    ["migrate", "plan", "--all"],
    ["groups", "delete", "--group", ".*", "--regex", "--dry-run"],
)


def test_a_group_that_is_closed_to_us_costs_itself_where_many_are_read(home: str, ann: KazooClient, capsys):
    """Each of these ended with 1 without a row, and mostly without the name of the node."""
    for group in ("a:b", "g", "s"):
        ann.create(f"/consumers/{group}/offsets/t/0", b"7", makepath=True)
    ann.set_acls("/consumers/s/offsets", [CLOSED])
    ann.create("/brokers/topics/hidden", b'{"partitions":{"0":[1]}}', acl=[CLOSED])  # and so does a topic
    at = ["-z", home, "--kafka-version", "0.8.2"]
    for args in READERS_OF_MANY:
        code, said = outcome([*args, *at]), capsys.readouterr()
        assert (code, "g" in said.out, "a:b" in said.out) == (4, True, True), (args, said)
        assert "group s cannot be read: " in said.err, (args, said)
        assert "/consumers/s/offsets: " in said.err, (args, said)
    assert outcome(["groups", "list", *at, "-o", "csv"]) == 4
    assert capsys.readouterr().out == "group,members,topics\na:b,0,1\ng,0,1\ns,,\n"
    assert outcome(["lag", "-o", "csv", *at]) == 4
    assert "\ns,,,,\n" in capsys.readouterr().out
    assert outcome(["offsets", "get", "--group", "s", *at]) == 1

    where = ["--zookeeper", home, "--kafka-version", "0.8.2"]
    assert dropin.outcome(dropin.consumer_groups, [*where, "--list"]) == 0  # its name is known
    assert capsys.readouterr().out == "a:b\ng\ns\n"
    assert dropin.outcome(dropin.consumer_groups, [*where, "--describe", "--all-groups"]) == 4
    assert "g      t      0" in capsys.readouterr().out
    for code, export in (
        (dropin.outcome(dropin.offset_export, where), capsys.readouterr()),
        (outcome(["offsets", "export", "-o", "zk-export", *at]), capsys.readouterr()),
    ):
        assert (code, export.out) == (4, "/consumers/g/offsets/t/0:7\n")
        assert "group 'a:b', topic 't': left out, for ImportZkOffsets would cut 'a:b' in two" in export.err
        assert "group s cannot be read: " in export.err


def test_a_throwaway_group_is_closed_to_others_and_still_removed(source, unique, tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text(f"zookeeper.auth: {ANN}\nzookeeper.set.acl: true\n")
    topic = unique.topic()
    source.create_topic(topic, 1)
    run("consume", "-z", source.zookeeper, "--zk-config", str(file), "--topic", topic, "--timeout-ms", "300")
    zk = source.registry().zk
    assert [group for group in zk.get_children("/consumers") if zk.exists(f"/consumers/{group}/owners/{topic}")] == []


@pytest.mark.parametrize(
    ("keep_folder", "neighbour", "left"), [(False, None, None), (True, None, []), (False, "other", ["other"])]
)
def test_the_folder_of_groups_goes_when_we_made_it_and_nobody_uses_it(
    home: str, ann: KazooClient, keep_folder: bool, neighbour: str | None, left: list[str] | None
):
    group = temporary_name()
    with removed_after(ZooKeeper(home, ZkSecurity(Secret(ANN))), group, keep_folder):
        ann.create(f"/consumers/{group}/ids", makepath=True)
        ann.create(f"/consumers/{group}/owners/t/0", b"x", acl=[CLOSED], makepath=True)
        if neighbour:
            ann.create(f"/consumers/{neighbour}")
    assert (ann.get_children("/consumers") if ann.exists("/consumers") else None) == left


def test_nothing_is_made_where_no_broker_is_registered(home: str):
    done = run("consume", "-z", home, "--topic", "t", code=1)
    assert done.stderr == f"error: no brokers are registered under {home}: is the chroot missing, or wrong?\n"
    zk = started_client(home)
    assert zk.get_children("/") == []
    zk.stop()
    zk.close()


def test_a_mirror_looks_at_a_target_that_asks_who_it_is(home: str, ann: KazooClient):
    ann.set_acls("/brokers/ids/1", [CLOSED])
    answered = {1: Broker(1, "127.0.0.1", 9)}
    values: dict[str, object] = {"metadata.broker.list": "127.0.0.1:9", "target.zookeeper.connect": home}
    with pytest.raises(ConsumerError, match=r"closed to us: see target\.zookeeper\.auth$"):
        probe_target_zookeeper(load(TargetOptions, values, "m.yaml"), answered, 5)
    probe_target_zookeeper(load(TargetOptions, {**values, "target.zookeeper.auth": ANN}, "m.yaml"), answered, 5)
