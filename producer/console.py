"""`zkproducer`: console producer that sends each line of standard input to a topic.

Exit codes: 0 all stored · 1 not all stored, or no broker answers · 2 usage · 5 the topic does not exist.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import BinaryIO, NoReturn

import click

from groundwork.commands import SingleCommand
from groundwork.logs import log_of_command
from groundwork.openfiles import TooManyOpenFiles, fill_standard_files, shortage
from groundwork.options import OptionError, load, warnings_of
from groundwork.output import Progress, print_note, version_option
from groundwork.sentences import counted
from groundwork.signals import STOPS, ignore_at_exit
from kafkawire.errors import BrokerError, LocalError, WireError
from producer.config import BY_OFFSETS, ProducerConfig
from producer.errors import EncoderFailed, PartitionerFailed, QueueFull, SendFailed, Undeliverable
from producer.messages import check_topic
from producer.producer import Producer

FAILED, USAGE, NOT_FOUND = 1, 2, 5
UNKNOWN_TOPIC = 3
FLUSH_S = 60.0
CLOSE_S = 30.0
INTERRUPTED = "interrupted: sending what was read"
OF_A_LINE = (Undeliverable, EncoderFailed, PartitionerFailed, QueueFull)  # the next lines may still be sent
PARSE_KEY, KEY_SEPARATOR = "parse.key", "key.separator"  # of the JVM's line reader, by --property
PARSE_HEADERS = "parse.headers"
NO_HEADERS = b"NO_HEADERS"
SHOWN_EVERY = 64  # lines


@click.command(
    name="zkproducer",
    cls=SingleCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "zkproducer --broker-list kafka1:9092 --topic orders < lines.txt",
        "zkproducer --zookeeper zk1:2181/kafka --topic orders --key-separator : --compression-codec gzip < lines.txt",
        "zkproducer --broker-list kafka1:9092 --topic orders --kafka-version 0.7.2 --confirm < lines.txt",
        "zkproducer completion bash  # completion for the shell; zsh, fish",
    ],
    exit_codes={
        0: "all lines are stored",
        FAILED: "not all lines are stored, or no broker answers",
        USAGE: "wrong command line",
        NOT_FOUND: "the topic does not exist",
    },
)
@click.option(
    "--broker-list",
    "--bootstrap-server",
    "broker_list",
    metavar="HOST:PORT,…",
    help="Bootstrap brokers, through which the others are found.",
)
@click.option("--zookeeper", metavar="HOST:PORT,…/CHROOT", help="ZooKeeper of the brokers, in place of --broker-list.")
@click.option("--topic", required=True, help="Topic to produce to.")
@click.option("--compression-codec", help="Compression codec: none, gzip, snappy or lz4.  [default: none]")
@click.option("--key-separator", help="Text between key and value of a line.  [default: lines have no key]")
@click.option(
    "--parse-headers", is_flag=True, help="A line begins with NAME:VALUE,… or NO_HEADERS, and a tab (0.11 and later)."
)
@click.option("--sync", is_flag=True, help="Wait after each line until it is stored.")
@click.option(
    "--partitioner",
    metavar="MODULE:FUNCTION",
    help="Partitioner of keys.  [default: the DefaultPartitioner of --kafka-version]",
)
@click.option(
    "--request-required-acks", help="Acknowledgement: -1 all in-sync replicas, 1 the leader, 0 none.  [default: -1]"
)
@click.option(
    "--confirm", is_flag=True, help="Kafka 0.7: confirm each line by a request after it, which the broker answers."
)
@click.option(
    "--message-max-bytes", help="Largest message in bytes: the brokers' message.max.bytes.  [default: 1000012]"
)
@click.option("--kafka-version", help="Kafka release of the brokers, 0.7.0 or later. [default: detected]")
@click.option(
    "--property",
    "--producer-property",
    "--reader-property",
    "--command-property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set any option of the producer; repeatable.",
)
@version_option("zkproducer")
def main(
    broker_list: str | None,
    zookeeper: str | None,
    topic: str,
    compression_codec: str | None,
    key_separator: str | None,
    parse_headers: bool,
    sync: bool,
    partitioner: str | None,
    request_required_acks: str | None,
    confirm: bool,
    message_max_bytes: str | None,
    kafka_version: str | None,
    properties: Sequence[str],
) -> None:
    """Send the lines of standard input to a topic.

    Each line is one message, as bytes.  Ctrl-C, SIGTERM and SIGHUP send what was read so far; a second one gives up.
    """
    ignore_at_exit()
    fill_standard_files()
    log_of_command()
    switches = {
        "--broker-list": ("metadata.broker.list", broker_list),
        "--zookeeper": ("zookeeper.connect", zookeeper),
        "--compression-codec": ("compression.codec", compression_codec),
        "--sync": ("producer.type", "sync" if sync else None),
        "--partitioner": ("partitioner.class", partitioner),
        "--request-required-acks": ("request.required.acks", request_required_acks),
        "--confirm": ("confirm", BY_OFFSETS if confirm else None),
        "--message-max-bytes": ("message.max.bytes", message_max_bytes),
        "--kafka-version": ("kafka.version", kafka_version),
    }
    try:
        given = _properties(properties)
        separator = _separator(key_separator, given)
        headers = _parses_headers(parse_headers, given)
        config = _config(switches, given)
        check_topic(topic)
        if sys.stdin is None:
            _end("standard input is closed; the lines are read from it", USAGE)
        producer = Producer(config, hub="own")
        producer.start()
    except (OptionError, LocalError) as wrong:
        raise click.UsageError(str(wrong)) from None
    except (OSError, TooManyOpenFiles) as wrong:
        if not (sentence := shortage(wrong)):
            raise
        _end(sentence, FAILED)
    for sentence in warnings_of(config):
        print_note(f"zkproducer: {sentence}")
    interrupts = Interrupts()
    interrupts.install()
    try:
        code = run(producer, topic, sys.stdin.buffer, separator=separator, headers=headers, interrupts=interrupts)
    except KeyboardInterrupt:  # the second ctrl-C, between two steps of the end
        _end(f"interrupted again: {producer.pending} messages may not be stored", FAILED)
    sys.exit(code)


def _properties(entries: Iterable[str]) -> dict[str, str]:
    """Return the pairs of --property.  Raises UsageError for one without a name, or given twice."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        name = name.strip()
        if not equals or not name:
            raise click.UsageError(f"--property takes NAME=VALUE, not '{entry}'")
        if name in found:
            raise click.UsageError(f"--property {name} is given twice")
        found[name] = value
    return found


def _separator(switch: str | None, given: dict[str, str]) -> bytes | None:
    """Return the text between key and value; None: lines have no key.  Removes the line reader's own properties."""
    parse, between = given.pop(PARSE_KEY, None), given.pop(KEY_SEPARATOR, None)
    if switch is not None and (parse, between) != (None, None):
        raise click.UsageError(f"give either --key-separator or --property {PARSE_KEY} and {KEY_SEPARATOR}")
    if parse not in (None, "true", "false"):
        raise click.UsageError(f"--property {PARSE_KEY} is '{parse}', expected true or false")
    if switch is None:
        switch = (between if between is not None else "\t") if parse == "true" else None
    if switch == "":
        raise click.UsageError("--key-separator is empty: give the text between key and value")
    return None if switch is None else switch.encode(errors="surrogateescape")


def _parses_headers(switch: bool, given: dict[str, str]) -> bool:
    """True if lines begin with headers.  Removes the line reader's own property."""
    text = given.pop(PARSE_HEADERS, "false")
    if text not in ("true", "false"):
        raise click.UsageError(f"--property {PARSE_HEADERS} is '{text}', expected true or false")
    return switch or text == "true"


def _config(switches: Mapping[str, tuple[str, str | None]], given: dict[str, str]) -> ProducerConfig:
    """Return the configuration from switches and properties.  Raises UsageError or OptionError if they conflict."""
    if switches["--broker-list"][1] is not None and switches["--zookeeper"][1] is not None:
        raise click.UsageError("--broker-list and --zookeeper are two ways to find the brokers: give one of them")
    for switch, (name, value) in switches.items():
        if value is None:
            continue
        if name in given:
            raise click.UsageError(f"{name} is given twice: by {switch} and by --property")
        given[name] = value
    if not {"metadata.broker.list", "broker.list", "zookeeper.connect", "zk.connect"} & given.keys():
        raise click.UsageError(
            "no way to find the brokers: give --broker-list (or its other name --bootstrap-server), or --zookeeper"
        )
    return load(ProducerConfig, {"client.id": "zkproducer", **given}, "command line", jvm=True)


class Interrupts:
    """Handler of ctrl-C, SIGTERM and SIGHUP: the first and second raise KeyboardInterrupt, the third ends the process.

    code: set once the exit code is known; then signals do not change it.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self._count = 0

    def install(self) -> None:
        for number in STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # keep what nohup ignores
                signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self.code is not None:
            os._exit(self.code)
        if self._count > 2:
            os._exit(FAILED)
        raise KeyboardInterrupt


def run(
    producer: Producer,
    topic: str,
    lines: BinaryIO,
    *,
    separator: bytes | None,
    headers: bool = False,
    interrupts: Interrupts | None = None,
) -> int:
    """Send every line, and return the exit code, with a sentence on stderr if it is not 0.  headers: lines begin with
    them."""
    sys.setswitchinterval(0.0005)  # this thread reads in a tight loop, and the event loop's thread must run
    code, interrupted = 0, False
    at_terminal = sys.stderr.isatty()
    with Progress("lines sent") as progress:
        shows = at_terminal and not lines.isatty()
        numbered = enumerate(lines, 1)
        try:
            shown = _shown(numbered, producer, progress) if shows else numbered
            code = _send(producer, topic, shown, separator, headers)
        except KeyboardInterrupt:
            interrupted = True
            print_note(INTERRUPTED)
        except OSError as broken:  # of reading: the producer raises WireErrors
            print_note(f"zkproducer: standard input: {broken}; sending what was read")
            code = FAILED
    code = _finish(producer, interrupted, code, interrupts or Interrupts())
    if at_terminal and not code:
        counts = producer.counts
        print_note(f"{counted(counts.acked, 'line', form=',')} {'sent' if counts.unacknowledged else 'stored'}")
    return code


def _shown(lines: Iterable[tuple[int, bytes]], producer: Producer, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Pass the lines through, and show progress on the terminal."""
    for number, line in lines:
        yield number, line
        if number % SHOWN_EVERY == 0:
            progress.update(number, f"{producer.pending:,} not stored yet")


def _finish(producer: Producer, interrupted: bool, sent: int, interrupts: Interrupts) -> int:
    """Wait until the lines read are stored, and return the exit code.  The first ctrl-C leads here, the second gives
    up.

    sent: the exit code so far; when it is not 0, lines that a synchronous producer did not store were already reported.
    """
    try:
        try:
            producer.flush(FLUSH_S)
        except KeyboardInterrupt:
            if interrupted:
                raise
            print_note(INTERRUPTED)
            producer.flush(FLUSH_S)
    except KeyboardInterrupt:
        print_note(f"interrupted again: {producer.pending} messages may not be stored")
        code = FAILED
    except SendFailed as failure:
        if not (sent and producer.config.sync):
            print_note(f"zkproducer: {failure}")
        code = FAILED
    else:
        code = 0
    interrupts.code = code or sent
    try:
        producer.close(0.0 if code else CLOSE_S)
    except SendFailed as failure:
        if not code:  # else it was reported already
            print_note(f"zkproducer: {failure}")
        interrupts.code = code = FAILED
    return code or sent


def _headers(text: bytes) -> list[tuple[str, bytes]]:
    """Parse headers as the JVM's console writes them.  Raises ValueError for a part without a colon, or a name that is
    not UTF-8."""
    if text in (b"", NO_HEADERS):
        return []
    pairs = [part.partition(b":") for part in text.split(b",")]
    if not all(colon for _, colon, _ in pairs):
        raise ValueError("headers are NAME:VALUE,NAME:VALUE, or NO_HEADERS")
    return [(name.decode(), value) for name, _, value in pairs]


def _send(
    producer: Producer, topic: str, lines: Iterable[tuple[int, bytes]], separator: bytes | None, parse_headers: bool
) -> int:
    """Send the lines, and return the exit code.  A line that cannot be sent is reported by number; any other failure
    ends it."""
    code = 0
    for number, line in lines:
        value: bytes = line.removesuffix(b"\n").removesuffix(b"\r")
        key: bytes | None = None
        headers: list[tuple[str, bytes]] = []
        if parse_headers:
            text, tab, value = value.partition(b"\t")
            try:
                if not tab:
                    raise ValueError("there is no tab after its headers")
                headers = _headers(text)
            except ValueError as wrong:
                print_note(f"zkproducer: line {number}: {wrong}; not sent")
                code = FAILED
                continue
        if separator is not None:
            key, found, value = value.partition(separator)
            if not found:
                between = separator.decode(errors="replace")
                print_note(f"zkproducer: line {number} has no key separator {between!r}; not sent")
                code = FAILED
                continue
        try:
            producer.send(topic, value, key, headers=headers)
        except OF_A_LINE as failure:
            said = str(failure).removesuffix("; nothing was sent").removesuffix(", and nothing was sent")
            print_note(f"zkproducer: line {number}: {said}; not sent")
            code = FAILED
        except WireError as failure:
            print_note(f"zkproducer: stopped at line {number}: {failure}")
            return NOT_FOUND if isinstance(failure, BrokerError) and failure.code == UNKNOWN_TOPIC else FAILED
    return code


def _end(sentence: str, code: int) -> NoReturn:
    print_note(f"zkproducer: {sentence}")
    sys.exit(code)
