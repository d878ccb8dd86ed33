"""Every Python example of the pages about the consumer runs, as a program of its own, against real brokers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.docpages import blocks, text_of
from tests.integration.readers import Reader, committed, owners
from tests.integration.sparktopics import produce

ROOT = Path(__file__).parents[2]
OPTIONS, *EXAMPLES = [block.text for block in blocks("consumer.md") if block.language == "python"]
EXAMPLES += [block.text for block in blocks("consumer-workers.md") if block.language == "python"][1:]
EACH = 10  # messages of each of the two partitions
# Unbuffered (-u, PYTHONUNBUFFERED) print writes each word apart, and another thread's line comes between them.
WHOLE_LINES = "import sys\n\nsys.stdout.reconfigure(line_buffering=True, write_through=False)\n"
WORDS = {  # what tells an example from all others
    "streams": "message.key, message.value)",
    "expression": "Blacklist",
    "batches": "batch.offsets[0]",
    "decoders": "DecodeFailed",
    "break": "number == 5",
    "commit": "batch.resume_at",
    "stop": "sys.exit",
    "seek": "consumer.seek",
    "listener": "ConsumerListener",
    "process": "cannot be billed",
    "gevent": "monkey.patch_all",
    "greenlets": "worker_kind",
    "asyncio": "run_coroutine_threadsafe",
    "coordinated": '"coordination": "kafka"',  # run in test_coordinated_groups.py: it needs a newer cluster
    "fixed": "offsets.file",
    "simple": "SimpleConsumer",
    "events": "on_event",
}


def example(name: str) -> str:
    (found,) = (block for block in EXAMPLES if WORDS[name] in block)
    return str(found)


class Place:
    """A topic, a group, and programs of the page that read the one in the other."""

    def __init__(self, cluster: ClusterClient, unique: Unique, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.topic, self.group = unique.topic("orders"), unique.group("billing")
        self.programs: list[Child] = []

    def fill(self, values: Mapping[int, list[bytes]] | None = None) -> None:
        self.cluster.create_topic(self.topic, 2)
        for p in range(2):
            numbered = [b"%d-%d" % (p, n) for n in range(EACH)]
            rows = numbered if values is None else values.get(p, [])
            if rows:
                produce(self.cluster, TopicPartition(self.topic, p), [(b"key", value) for value in rows])

    def program(self, name: str, **replaced: str) -> Child:
        """An example, started; its options shorter than the page's times."""
        text = f"{WHOLE_LINES}{OPTIONS}options |= {{'zookeeper.session.timeout.ms': 3000}}\n{example(name)}"
        stand_ins = {
            "zk1:2181/kafka": self.cluster.zookeeper,
            '"broker1", 9092': '"{}", {}'.format(*self.cluster.brokers.split(",")[0].split(":")),
            "broker1:9092,broker2:9092": self.cluster.brokers,
            "/var/lib/billing": str(self.folder),
            "orders": self.topic,
            "payments": f"payments-beside-{self.topic}",  # other tests have topics that begin with payments
            '"billing"': f'"{self.group}"',
            '"audit"': f'"{self.group}"',
            **replaced,
        }
        for old, new in stand_ins.items():
            text = text.replace(old, new)
        file = self.folder / f"program{len(self.programs)}.py"
        file.write_text(text)
        argv = [sys.executable, str(file)]
        self.programs.append(Child(name, argv, file.with_suffix(".log"), env={"PYTHONPATH": str(ROOT)}))
        return self.programs[-1]

    def committed(self) -> dict[int, int]:
        return committed(self.cluster, self.group, self.topic)


def lines(program: Child) -> list[str]:
    return program.log.read_text().splitlines()


def until(program: Child, found: Callable[[list[str]], object], what: str) -> list[str]:
    wait_until(lambda: found(lines(program)), 40, lambda: f"{what}:\n{program.log.read_text()}")
    return lines(program)


def ended(program: Child) -> list[str]:
    """What it printed, once it ended by itself, and well."""
    assert program.wait(40) == 0, program.log.read_text()
    return lines(program)


@pytest.fixture
def place(source: ClusterClient, unique: Unique, tmp_path: Path) -> Iterator[Place]:
    place = Place(source, unique, tmp_path)
    yield place
    for program in place.programs:
        program.close()


def test_every_example_is_run_here_and_compiles() -> None:
    assert sorted(map(example, WORDS)) == sorted(EXAMPLES)
    for block in EXAMPLES:
        compile(block, "example", "exec")


@pytest.mark.real
def test_streams_by_name_and_by_expression(place: Place) -> None:
    place.fill()
    both = {f"{p} {n}" for p in range(2) for n in range(EACH)}
    program = place.program("streams")
    printed = until(program, lambda got: len(got) >= 2 * EACH, "all messages")
    assert {" ".join(line.split()[1:3]) for line in printed} == both
    program.kill()
    program = place.program("expression", billing="by-expression")
    printed = until(program, lambda got: len(got) >= 2 * EACH, "all messages")
    assert {line.split()[0] for line in printed} == {"0", "1"}  # both streams
    assert {line.split()[1] for line in printed} == {place.topic}


@pytest.mark.real
def test_batches_and_decoders(place: Place) -> None:
    place.fill({0: [b'{"total": 3}', b'{"total": 4}', b"no json", b'{"total": 5}']})
    program = place.program("batches")
    assert until(program, lambda got: got, "a batch") == [f"{place.topic}/0 0 3 4 43"]
    program.kill()
    program = place.program("decoders", **{place.group: "decoding"})
    printed = until(program, lambda got: len(got) == 4, "three messages and what failed")
    assert [printed[0], printed[1], printed[3]] == ["0 3", "1 4", "3 5"]
    assert f"{place.topic}/0 at 2: the decoder refused the message: JSONDecodeError:" in printed[2]


@pytest.mark.real
def test_a_message_that_was_acknowledged_before_the_break_is_committed(place: Place) -> None:
    place.fill({0: [b"%d" % n for n in range(EACH)]})
    assert ended(place.program("break")) == ["0", "1", "2", "3", "4"]
    assert place.committed()[0] == 5
    left_in_hand = place.program("break", **{"            message.ack()\n": ""})
    assert ended(left_in_hand) == ["5", "6", "7", "8", "9"]
    assert place.committed()[0] == 9


@pytest.mark.real
def test_offsets_of_the_programs_own_and_a_stop_by_sigterm(place: Place) -> None:
    place.fill()
    program = place.program("commit")
    until(program, lambda got: len(got) >= 2, "both partitions")
    wait_until(lambda: place.committed() == {0: EACH, 1: EACH}, 20, "both to be committed")
    program.kill()
    assert not any("is not committed" in line for line in lines(program))
    program = place.program("stop", **{place.group: place.group + "-2"})
    until(program, lambda got: len(got) == 2 * EACH, "all messages")
    program.send(signal.SIGTERM)
    ended(program)
    stopped = committed(place.cluster, place.group + "-2", place.topic)
    assert stopped == {0: EACH, 1: EACH}  # it asked for the next one, so the last one is done
    assert owners(place.cluster, place.group + "-2", place.topic) == {}


@pytest.mark.real
def test_pause_seek_and_a_listener(place: Place) -> None:
    place.fill({0: [b"%d" % n for n in range(EACH)]})
    assert ended(place.program("seek")) == ["0", "[3, 4, 5]"]
    printed = ended(place.program("listener", **{place.group: "listening"}))
    assigned = f"assigned ['{place.topic}/0', '{place.topic}/1']"
    assert [line for line in printed if not line.startswith("session")][:2] == [assigned, "3"]
    revoked = f"revoked ['{place.topic}/0', '{place.topic}/1']"
    assert revoked in printed
    assert "session connected" in printed


@pytest.mark.real
def test_a_handler_in_many_workers_and_what_it_returns(place: Place) -> None:
    place.fill({0: [b"one", b"two", b"cannot be billed", b"three"], 1: [b"not yet", b"four"]})
    program = place.program("process")
    until(program, lambda got: all(word in "".join(got) for word in ("one", "two", "four")), "what may be billed")
    assert "not yet" not in program.log.read_text()
    program.send(signal.SIGINT)
    program.wait(20)
    assert place.committed() == {0: 2, 1: 0}


@pytest.mark.real
@pytest.mark.parametrize("name", ["gevent", "greenlets", "asyncio"])
def test_gevent_and_asyncio(place: Place, name: str) -> None:
    place.fill()
    program = place.program(name)
    until(program, lambda got: len(got) == 2 * EACH, "all messages")
    program.send(signal.SIGINT if name == "asyncio" else signal.SIGTERM)
    assert program.wait(20) is not None, program.log.read_text()
    assert place.committed() == {0: EACH, 1: EACH}, program.log.read_text()
    assert owners(place.cluster, place.group, place.topic) == {}


@pytest.mark.real
def test_fixed_partitions_and_one_broker(place: Place) -> None:
    place.fill()
    program = place.program("fixed")
    until(program, lambda got: len(got) == 2 * EACH, "all messages")
    program.send(signal.SIGINT)
    assert program.wait(20) is not None
    assert place.topic in (place.folder / "offsets.json").read_text()
    tp = f"TopicPartition(topic='{place.topic}', partition=0)"
    printed = ended(place.program("simple"))
    assert printed == [f"{n} b'0-{n}'" for n in range(EACH)] + [f"[{tp}]", f"{{{tp}: {EACH}}}"]


@pytest.mark.real
def test_events_and_status(place: Place) -> None:
    place.fill()
    printed = ended(place.program("events"))
    assert [line for line in printed if line.startswith("start ")]
    rows = [line for line in printed if line.startswith(f"{place.topic}/")]
    assert len(rows) == 2
    states = ("starting", "looking for leader", "reading")
    assert all(state in text_of("consumer.md") for state in states)
    assert all(any(f" {state} " in row for state in states) and row.endswith(" None") for row in rows)
    with Reader(place.cluster.zookeeper, place.group, {place.topic: 1}) as reader:
        wait_until(lambda: len(reader.got) == 2 * EACH, 20, "the rest, and the message in its hands again")
