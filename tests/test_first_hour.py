"""docs/first-hour.md works: its doors open and its programs run, as they stand."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from groundwork.options import OptionError
from localkafka import detached
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from producer.producer import Producer
from tests.docpages import ROOT, blocks, section, text_of
from tests.fakes.broker import FakeCluster
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout

PAGE = text_of("first-hour.md")
DOORS = dict(re.findall(r"<!-- door: (\w+) -->\n\n```sh\n(.*?)```\n", PAGE, re.DOTALL))
MIGRATION = "Replace the members of a JVM group, and move it off ZooKeeper"
CLUSTERS = {"east", "west", "new"}  # the names that the doors give theirs


def python_block(word: str, **replaced: str) -> str:
    """Return the one program of the page that has this word, with texts replaced, each of which must be there."""
    (block,) = (block.text for block in blocks("first-hour.md") if block.language == "python" and word in block.text)
    for old, new in replaced.values():
        assert old in block
        block = block.replace(old, new)
    return block


def test_every_block_of_commands_is_a_door():
    assert [block.text for block in blocks("first-hour.md") if block.language == "sh"] == list(DOORS.values())
    assert {block.language for block in blocks("first-hour.md")} == {"sh", "python"}


# Ends what a run of the doors leaves, once its standard input ends: also after a signal that ended pytest.
ENDING = """
import os, signal, sys
from localkafka import detached
sys.stdin.read()
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
for name in set(sys.argv[2:]) & set(detached.names()):
    detached.stop(name)
"""


def run(script: str, folder: Path, timeout_s: float) -> tuple[str, list[str]]:
    """Run a script in a shell in the checkout.  Return its output, and the commands whose exit code was not 0.  Neither
    its processes nor its clusters outlive the call, or this process."""
    failed = folder / "failed"
    trap = f"""trap 'echo "$?: $BASH_COMMAND" >> {shlex.quote(str(failed))}' ERR\n"""
    shell = subprocess.Popen(
        ["bash", "-c", trap + script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    words = [sys.executable, "-c", ENDING, str(shell.pid), *CLUSTERS]
    ending = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)
    try:
        printed, _ = shell.communicate(timeout=timeout_s)
    finally:
        ending.communicate(timeout=90)
        shell.wait()
    assert ending.returncode == 0
    return printed, failed.read_text().splitlines() if failed.exists() else []


def test_a_script_ends_with_the_process_that_ran_it(tmp_path: Path):
    """As where pytest gets SIGTERM: the shell would go on to start clusters."""
    program = f"""
import sys
from pathlib import Path
from tests.test_first_hour import run
run("echo $$ > pid.draft; mv pid.draft pid; sleep 60", Path({str(tmp_path)!r}), 60)
""".replace("pid", str(tmp_path / "pid"))
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as ran:
        wait_until(lambda: (tmp_path / "pid").exists(), 60, "the script to begin")
        ran.terminate()
    shell = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{shell}").exists(), 60, "the script to end")


@pytest.mark.real
@pytest.mark.spark
def test_the_three_doors_open(tmp_path: Path):
    """They run in one shell, as they stand, on the same clusters, whose names and ports they give."""
    assert list(DOORS) == ["clusters", "mirror", "group", "migration", "spark", "end"]
    with (Path(tempfile.gettempdir()) / "first-hour.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the tests on this machine has the same names and ports
        assert not CLUSTERS & set(detached.names()), "a reader's own clusters run here: stop them"
        printed, failed = run("".join(f"echo '== {name}'\n{block}" for name, block in DOORS.items()), tmp_path, 540)
    assert [each for each in failed if not re.fullmatch(r"143: wait \$\w+", each)] == [], printed
    said = dict(re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", printed, re.DOTALL | re.MULTILINE))
    assert re.search(r"^orders +\d+ +\d+ +\d+ +0 .* sound$", said["mirror"], re.MULTILINE), said["mirror"]
    assert re.search(r"^source east .*lag 0$", said["mirror"], re.MULTILINE)
    assert re.search(r"^source west .*lag 0$", said["mirror"], re.MULTILINE)
    owners = set(re.findall(r"^orders +\d+ +(billing_\S+)", said["group"], re.MULTILINE))
    assert len(owners) == 2, said["group"]
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir() and (path / "mirror.yaml").is_file())
    numbers = [
        int(line) for name in ("jvm.txt", "ours.txt", "moved.txt") for line in (folder / name).read_text().splitlines()
    ]
    (behind,) = re.findall(r"^group billing: (\d+) messages? behind", said["migration"], re.MULTILINE)
    assert len(numbers) == len(set(numbers)) == 3000 - int(behind), said["group"]
    stores = re.findall(r"^orders +\d+ .* (\w+) +\S+$", said["migration"].rpartition("store")[2], re.MULTILINE)
    assert "kafka" in stores, said["migration"]
    assert "zookeeper" not in stores, said["migration"]
    (warned,) = re.findall(r"`check` warns of (.*?)\.\n\n", section("first-hour.md", MIGRATION), re.DOTALL)
    announced = re.findall(r"`([a-z-]+)`", warned)
    warnings = re.findall(r"^warn +(\S+)", said["migration"], re.MULTILINE)
    assert sorted(warnings) == sorted(announced) != [], said["migration"]
    assert "'topic': 'orders'" in said["spark"]


def test_the_producer_example_runs():
    with FakeCluster({"orders": 2}) as cluster:
        host, port = cluster.bootstrap[0]
        exec(python_block("Producer", brokers=("broker1:9092", f"{host}:{port}")), {})
        messages = [m for p in range(2) for m in cluster.messages("orders", p)]
        assert messages == [(0, b"key", b"value")]


@pytest.mark.real
def test_the_consumer_example_runs(source, unique, capsys: pytest.CaptureFixture[str]):
    topic = unique.topic("orders")
    source.create_topic(topic, 2)
    load = Load(source.brokers, source.version)
    load.produce(topic, 2, 20, Mixture(0.5, (0, 1)), batch=5)
    load.close()
    example = python_block(
        "Whitelist",
        zookeeper=("zk1:2181", source.zookeeper),
        group=("billing", unique.group()),
        topics=("orders.*", f"{topic}.*"),
        end=('"auto.offset.reset": "smallest"', '"auto.offset.reset": "smallest", "consumer.timeout.ms": 2000'),
    )
    with pytest.raises(ConsumerTimeout):
        exec(example, {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    assert {tuple(line.split()[:3]) for line in lines} == {(topic, str(p), str(n)) for p in range(2) for n in range(10)}


def test_a_wrong_option_of_a_mapping_is_named():
    with pytest.raises(OptionError, match=r"ConsumerConnector: option 'grup.id' is unknown; did you mean 'group.id'"):
        ConsumerConnector({"zookeeper.connect": "zk1:2181", "grup.id": "billing", "auto.offset.reset": "smallest"})
    with pytest.raises(OptionError, match=r"Producer: option 'metadata.broker.list' is missing"):
        Producer({"request.required.acks": -1})
