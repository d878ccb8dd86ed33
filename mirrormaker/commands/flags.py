"""The command line of the original MirrorMaker (0.7.1 to 0.10): flags that are taken, and flags refused by name.

taken      --consumer.config (repeatable: one connector a source)  --producer.config  --whitelist | --blacklist
           --num.streams  --offset.commit.interval.ms  --message.handler
refused    each of REFUSED, with the reason and what to do instead
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from mirrormaker import exits


class RefusedFlag(NamedTuple):
    flag: str
    reason: str
    takes_value: bool = True


REFUSED = (
    RefusedFlag("--num.producers", "there is one sender per target broker, whatever the load: leave it out"),
    RefusedFlag(
        "--queue.size", "memory is bounded in bytes: leave it out, or set queued.max.bytes in the consumer config"
    ),
    RefusedFlag("--new.producer", "there is one producer, and it waits for acknowledgements: leave it out", False),
    RefusedFlag("--new.consumer", "sources are read as a ZooKeeper group: leave it out", False),
    RefusedFlag(
        "--abort.on.send.failure",
        "a message that cannot be delivered parks its partition, nothing is skipped and nothing aborts: leave it out",
    ),
    RefusedFlag("--message.handler.args", "a Python handler reads its own settings: leave it out"),
    RefusedFlag("--consumer.rebalance.listener", "JVM classes cannot be loaded here, and none is needed: leave it out"),
    RefusedFlag("--rebalance.listener.args", "there is no rebalance listener here: leave it out"),
)


class UsageRefused(click.UsageError):
    exit_code = exits.USAGE


def _refuse(refused: RefusedFlag) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value:
            raise UsageRefused(f"{refused.flag} is not supported: {refused.reason}", context)

    return callback


def original_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The original's flags, as options of a click command; refused ones are hidden and never reach it."""
    for refused in REFUSED:
        kind: dict[str, Any] = {} if refused.takes_value else {"is_flag": True}
        command = click.option(
            refused.flag, expose_value=False, hidden=True, callback=_refuse(refused), is_eager=True, **kind
        )(command)
    for option in reversed(_TAKEN):
        command = option(command)
    return command


def _only_one(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    if len(values) > 1:
        both = " and ".join(repr(value) for value in values)
        raise UsageRefused(f"{parameter.opts[0]} is given {len(values)} times, {both}: give it once", context)
    return values[0] if values else None


def _once(flag: str, name: str, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that click would take the last of, silently, when it is given twice."""
    return click.option(flag, name, multiple=True, callback=_only_one, help=help)


_TAKEN = (
    click.option(
        "--consumer.config",
        "consumer_config",
        multiple=True,
        help="A source as the JVM's consumer.properties; repeat it for several sources.",
    ),
    _once("--producer.config", "producer_config", "The target as the JVM's producer.properties."),
    _once("--whitelist", "whitelist", "Topics to mirror: a Java regex, commas mean 'or'."),
    _once("--blacklist", "blacklist", "Topics not to mirror; all others are."),
    _once("--num.streams", "num_streams", "Streams of each source (threads in its registration)."),
    _once("--offset.commit.interval.ms", "offset_commit_interval_ms", "Interval between commits, in ms."),
    _once("--message.handler", "message_handler", "package.module:function, called with each message."),
)
