"""What a handler costs the mirror: message.handler and message.set.handler doing the same work, in memory, in one run.

    python benchmarks/handlers.py [--count 8000] [--size 100] [--codecs none,gzip] [--rounds 7] [--json FILE]

Each handler drops a message of ten, and makes the last eight bytes of the others' values their key.  A fetched set goes
in and parts for the target come out, by a flow as the daemon has it, without sockets; with the partitions of the source
kept, and with partitions chosen by murmur2.  Seconds are processor time; the best round counts.

The targets are those of a whole mirror against the JVM's of 0.8.2.2, which copies 195,000 messages of 100 B a CPU
second: 1.5 times as many with message.handler, 5 times with message.set.handler, plain sets and kept partitions.  What
fetching and sending take comes on top of these figures: benchmarks/mirror.py has the whole.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import click
from common import Report, Run

from groundwork.tasks import TaskGroup, sleep
from kafkawire import kernels
from kafkawire.compression import CODECS
from kafkawire.dialects import dialect
from kafkawire.model import Message, MessageSet, Part
from mirrormaker.flow import Flow
from mirrormaker.handler import DROP, MessageHandler
from mirrormaker.partitioning import HASHED, ChosenPartitioner
from mirrormaker.routes import RouteRules, SourceTopic
from mirrormaker.sethandler import MessageColumns, SetHandler
from producer.partitioners import murmur2_partitioner

SPEAKS = dialect("0.8.2")
PARTITIONS = 4
BATCH = 200  # messages in a wrapper, as a producer makes them
MURMUR2 = ChosenPartitioner("murmur2", murmur2_partitioner)


def one(message: Message) -> object:
    assert message.value is not None
    return DROP if message.value.endswith(b"7") else (message.value[-8:], message.value)


def columns(messages: MessageColumns) -> MessageColumns:
    messages.keep([not value.endswith(b"7") for value in messages.values if value is not None])
    messages.keys = [value[-8:] for value in messages.values if value is not None]
    return messages


class Parts:
    """A sender, and the share of a set: everything is done at once."""

    def __init__(self) -> None:
        self.messages = 0

    def submit(self, part: Part, ticket: object) -> None:
        self.messages += part.count

    def ticket(self, resume_at: int, parts: int = 1) -> Parts:
        return self

    def done(self) -> None:
        pass

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        raise reason


def fetched(count: int, size: int, codec: int) -> MessageSet:
    rows = [(n, None, b"x" * (size - 8) + b"%08d" % n, None) for n in range(count)]
    stored = b"".join(
        SPEAKS.messages.encode(rows[at : at + BATCH], codec=codec, magic=0) for at in range(0, count, BATCH)
    )
    found, _ = SPEAKS.messages.message_set("t", 0, 0, memoryview(stored), None)
    assert isinstance(found, MessageSet)
    return found


def seconds(message_set: MessageSet, by_sets: bool, chosen: ChosenPartitioner, rounds: int) -> float:
    """Processor time of the best round."""
    handler = SetHandler(columns, "sets", "dc1", SPEAKS) if by_sets else MessageHandler(one, "messages", "dc1", SPEAKS)
    rules = RouteRules(
        source=SPEAKS,
        target=SPEAKS,
        message_max_bytes=1_000_012,
        handler="" if by_sets else "messages",
        set_handler="sets" if by_sets else "",
        partitioner=lambda topic: chosen,
    )
    parts, tasks = Parts(), TaskGroup()
    source = SimpleNamespace(name="dc1", topic=lambda name: SourceTopic(PARTITIONS, 1), in_target=False, deleted={})
    prepared = SimpleNamespace(prepare=lambda topic, source: range(PARTITIONS))
    target = SimpleNamespace(topics=prepared, sender_of=lambda name: parts, writers={})
    flow = Flow(source, target, rules, tasks, handler=handler)  # type: ignore[arg-type]
    flow.take(message_set, parts)  # type: ignore[arg-type]
    while "t" not in flow.topics:
        sleep(0.001)
    best = float("inf")
    for _ in range(rounds):
        parts.messages = 0
        began = time.process_time()
        flow.take(message_set, parts)  # type: ignore[arg-type]
        best = min(best, time.process_time() - began)
    tasks.stop(1)
    assert parts.messages
    return best


JVM_PER_CPU_S = 195_000
TARGETS = {"message.handler": 1.5, "message.set.handler": 5.0}


@click.command()
@click.option("--count", default=8000, show_default=True, help="Messages of the set.")
@click.option("--size", default=100, show_default=True, help="Bytes of a value.")
@click.option("--codecs", default="none,gzip", show_default=True, help="Codecs of the set, separated by commas.")
@click.option("--rounds", default=7, show_default=True, help="Rounds, of which the best counts.")
@click.option("--small", is_flag=True, help="Fewer rounds.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the results to this file, too.")
def main(count: int, size: int, codecs: str, rounds: int, small: bool, file: Path | None) -> None:
    """Compare the two forms of handlers."""
    kernels.prepare()
    report = Report("handlers", short=small, about={"kernels": kernels.name()})
    for codec in codecs.split(","):
        message_set = fetched(count, size, CODECS[codec])
        for name, chosen in (("kept", HASHED), ("murmur2", MURMUR2)):
            work = f"{codec}, partitions {name}, {size} B"
            for option, target in TARGETS.items():
                spent = seconds(
                    message_set, option == "message.set.handler", chosen, min(rounds, 3) if small else rounds
                )
                report.add(Run(work=work, who=option, messages=count, bytes=size, cpu_s=spent, checked=True))
                wanted = 1e6 / (JVM_PER_CPU_S * target) if (codec, name, size) == ("none", "kept", 100) else None
                what = "us a message, of those the whole may take"
                report.figure(work, what, spent / count * 1e6, target=wanted, at_most=True, who=option)
    report.end(file)


if __name__ == "__main__":
    main()
