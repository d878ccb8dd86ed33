"""A child that a program forks has nothing of its consumers: it reads, commits and says goodbye to nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.fakes.broker import FakeCluster, entry

MESSAGES = 40
PROGRAM = """
    import os, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 finds a fork beside threads dangerous
    from groundwork.tasks import sleep
    from zkconsumer.connector import ConsumerConnector

    def said(ask):
        try:
            return repr(ask())
        except Exception as e:
            return f"{type(e).__name__}: {e}"

    options = {"metadata.broker.list": sys.argv[1], "partitions": {"t": [0]}, "offsets.file": sys.argv[2],
               "auto.offset.reset": "smallest", "consumer.timeout.ms": 1000, "group.id": "g"}
    with ConsumerConnector(options, HUB) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        messages = iter(stream)
        print(next(messages).offset, next(messages).offset, flush=True)
        if os.fork() == 0:
            for ask in (lambda: next(messages), lambda: next(messages), lambda: next(stream.batches()),
                        connector.commit_offsets, connector.shutdown, lambda: connector.settled):
                print("child:", said(ask))
            sleep(0.5)  # what the parent left in the event loop has time to go on
            sys.exit(0)
        _, status = os.wait()
        print("child ended with", os.waitstatus_to_exitcode(status))
        rest = []
        try:
            for message in messages:
                rest.append(message.offset)
        except Exception as e:
            print("parent:", type(e).__name__)
        print("parent:", rest == list(range(2, COUNT)), connector.settled)
"""
PATCHED = "from gevent import monkey\nmonkey.patch_all()\n"


@pytest.mark.parametrize(
    ("before", "hub"), [(PATCHED, "auto"), ("", "own"), ("", "caller")], ids=["gevent", "threads", "unpatched gevent"]
)
def test_a_forked_child_reads_and_commits_nothing_and_its_parent_reads_everything(before: str, hub: str, tmp_path):
    program = textwrap.dedent(PROGRAM).replace("HUB", repr(hub)).replace("COUNT", str(MESSAGES))
    with FakeCluster({"t": 1}) as cluster:
        for n in range(MESSAGES):
            cluster.append("t", 0, entry(b"%d" % n))
        host, port = cluster.bootstrap[0]
        ended = subprocess.run(
            [sys.executable, "-c", before + program, f"{host}:{port}", str(tmp_path / "offsets")],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    told = [line.removeprefix("child: ") for line in lines if line.startswith("child: ")]
    assert lines[0] == "0 1"
    assert [line.partition(":")[0] for line in told] == [
        "Forked",
        "Forked",
        "Forked",
        "HubStopped",
        "HubStopped",
        "False",
    ]
    assert all("forked" in line for line in told[:5])
    assert lines[-3:] == ["child ended with 0", "parent: ConsumerTimeout", "parent: True True"]


SIMPLE = """
    import os, sys, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    from zkconsumer.simple import SimpleConsumer

    host, port = sys.argv[1].split(":")
    with SimpleConsumer(host, int(port)) as consumer:
        def fetched(offsets):
            return [next(consumer.fetch("t", 0, at, 1000).messages(True)).offset for at in offsets]
        assert fetched([0]) == [0]
        child = os.fork()
        wanted = [n % COUNT for n in range(200)] if child else [(7 * n) % COUNT for n in range(200)]
        right = fetched(wanted) == wanted
        if child == 0:
            os._exit(0 if right else 1)
        print(right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_simple_consumer_of_parent_and_child_has_a_connection_for_each():
    with FakeCluster({"t": 1}) as cluster:
        for n in range(MESSAGES):
            cluster.append("t", 0, entry(b"%d" % n))
        host, port = cluster.bootstrap[0]
        program = textwrap.dedent(SIMPLE).replace("COUNT", str(MESSAGES))
        ended = subprocess.run(
            [sys.executable, "-c", program, f"{host}:{port}"], capture_output=True, text=True, timeout=60
        )
    assert (ended.stdout, ended.stderr) == ("True 0\n", "")
