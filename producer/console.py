"""zkproducer: lines of standard input to a topic, one message a line.

Exit codes: 0 all stored · 1 something was not, or no broker answers · 2 usage · 5 the topic does not exist.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import BinaryIO, NoReturn

import click

from groundwork.options import OptionError, load
from kafkawire.errors import BrokerError, WireError
from producer.config import ProducerConfig
from producer.errors import SendFailed, Undeliverable
from producer.producer import Producer

FAILED, USAGE, NOT_FOUND = 1, 2, 5
UNKNOWN_TOPIC = 3
FLUSH_S = 60.0
INTERRUPTED = "interrupted: sending what was read"


@click.command(name="zkproducer", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--broker-list", required=True, metavar="HOST:PORT,…", help="Brokers that are asked for all others.")
@click.option("--topic", required=True, help="Topic to produce to.")
@click.option("--compression-codec", default="none", show_default=True, help="none, gzip, snappy or lz4.")
@click.option("--key-separator", default=None, help="Each line is KEY, this text, VALUE; without it lines have no key.")
@click.option(
    "--request-required-acks", default="-1", show_default=True, help="-1: all in-sync replicas, 1: the leader, 0."
)
@click.option("--message-max-bytes", default="1000012", show_default=True, help="The brokers' message.max.bytes.")
@click.option("--kafka-version", default="0.8.2", show_default=True, help="Release of the brokers.")
def main(
    broker_list: str,
    topic: str,
    compression_codec: str,
    key_separator: str | None,
    request_required_acks: str,
    message_max_bytes: str,
    kafka_version: str,
) -> None:
    """Send the lines of standard input to a topic, one message a line, as bytes.

    Ctrl-C sends what was read so far.
    """
    given = {
        "metadata.broker.list": broker_list,
        "compression.codec": compression_codec,
        "request.required.acks": request_required_acks,
        "message.max.bytes": message_max_bytes,
        "kafka.version": kafka_version,
        "client.id": "zkproducer",
    }
    if key_separator == "":
        _end("--key-separator is empty: give the text between key and value", USAGE)
    try:
        config = load(ProducerConfig, given, "command line", jvm=True)
    except OptionError as wrong:
        _end(str(wrong), USAGE)
    sys.exit(run(config, topic, sys.stdin.buffer, key_separator.encode() if key_separator else None))


def run(config: ProducerConfig, topic: str, lines: BinaryIO, separator: bytes | None) -> int:
    """Send every line; the exit code, after one sentence on stderr when it is not 0."""
    sys.setswitchinterval(0.0005)  # this thread reads in a tight loop, the hub's must get its turns
    producer = Producer(config, hub="own")
    code, interrupted = 0, False
    try:
        code = _send(producer, topic, lines, separator)
    except KeyboardInterrupt:
        interrupted = True
        click.echo(INTERRUPTED, err=True)
    except WireError as failure:
        code = NOT_FOUND if isinstance(failure, BrokerError) and failure.code == UNKNOWN_TOPIC else FAILED
        click.echo(f"zkproducer: {failure}", err=True)
    return _finish(producer, interrupted) or code


def _finish(producer: Producer, interrupted: bool) -> int:
    """Wait until what was read is stored.  The first ctrl-C asks for just that; the second gives up."""
    try:
        try:
            producer.flush(FLUSH_S)
        except KeyboardInterrupt:
            if interrupted:
                raise
            click.echo(INTERRUPTED, err=True)
            producer.flush(FLUSH_S)
    except KeyboardInterrupt:
        click.echo(f"interrupted again: {producer.pending} messages may not be stored", err=True)
        code = FAILED
    except SendFailed as failure:
        click.echo(f"zkproducer: {failure}", err=True)
        code = FAILED
    else:
        producer.close()
        return 0
    with suppress(SendFailed):  # what it would say has been said
        producer.close(0.0)
    return code


def _send(producer: Producer, topic: str, lines: BinaryIO, separator: bytes | None) -> int:
    """A line that cannot be sent is told with its number, and the others go on."""
    code = 0
    for number, line in enumerate(lines, 1):
        value: bytes = line.removesuffix(b"\n").removesuffix(b"\r")
        key: bytes | None = None
        if separator is not None:
            key, found, value = value.partition(separator)
            if not found:
                click.echo(f"zkproducer: line {number} has no key separator {separator.decode()!r}; not sent", err=True)
                code = FAILED
                continue
        try:
            producer.send(topic, value, key)
        except Undeliverable as failure:
            click.echo(f"zkproducer: line {number}: {failure}; not sent", err=True)
            code = FAILED
    return code


def _end(sentence: str, code: int) -> NoReturn:
    click.echo(f"zkproducer: {sentence}", err=True)
    sys.exit(code)
