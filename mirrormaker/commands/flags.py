"""The command line of the original MirrorMaker (0.7.1 to 0.10): flags that are taken, and flags that change nothing.

taken            --consumer.config (repeatable: one connector a source)  --producer.config  --whitelist | --blacklist
                 --num.streams  --offset.commit.interval.ms  --message.handler
without effect   each of WITHOUT_EFFECT: a warning with the reason, so that a start script runs unchanged
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from mirrormaker import exits

GIVEN = "mirrormaker.flags.without.effect"  # where the context keeps the sentences on them


class WithoutEffect(NamedTuple):
    """A flag of the original, and why it changes nothing here.  flags: its spellings in all releases."""

    flags: tuple[str, ...]
    reason: str
    takes_value: bool = True

    def sentence(self, flag: str) -> str:
        return f"command line: {flag} has no effect here: {self.reason}"


WITHOUT_EFFECT = (
    WithoutEffect(("--num.producers",), "each target broker has one sender, whatever the load"),
    WithoutEffect(("--queue.size",), "memory is bounded in bytes: queued.max.bytes in the consumer config"),
    WithoutEffect(("--new.producer",), "there is one producer, and it always waits for acknowledgements", False),
    WithoutEffect(("--new.consumer",), "sources are read as a member of a ZooKeeper group", False),
    WithoutEffect(
        ("--abort.on.send.failure",),
        "a message that cannot be delivered parks its partition, whether true or false, and its neighbours go on; "
        "oversize.policy and its like ask for something else (fail ends the mirror)",
    ),
    WithoutEffect(
        ("--rebalance.listener", "--consumer.rebalance.listener"),
        "classes of a JVM cannot be loaded; what is revoked is drained and committed before it is released",
    ),
    WithoutEffect(("--rebalance.listener.args",), "there is no rebalance listener to pass them to"),
    WithoutEffect(("--message.handler.args",), "a Python handler reads its own settings"),
)


class UsageRefused(click.UsageError):
    exit_code = exits.USAGE


def original_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """The original's flags, as options of a click command.

    It is also passed without_effect: a sentence for each flag that was given and changes nothing.
    """

    @wraps(command)
    def called(*args: Any, **named: Any) -> Any:
        given: dict[str, str] = click.get_current_context().meta.get(GIVEN, {})
        return command(*args, without_effect=tuple(given.values()), **named)

    found: Callable[..., Any] = called
    for one in WITHOUT_EFFECT:
        kind: dict[str, Any] = {"multiple": True} if one.takes_value else {"is_flag": True}
        for flag in one.flags:
            name = flag.removeprefix("--").replace(".", "_")
            found = click.option(flag, name, expose_value=False, hidden=True, callback=_note(one, flag), **kind)(found)
    for option in reversed(_TAKEN):
        found = option(found)
    return found


def _note(one: WithoutEffect, flag: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value:
            context.meta.setdefault(GIVEN, {})[flag] = one.sentence(flag)

    return callback


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
    _once("--blacklist", "blacklist", "Topics not to mirror: beside --whitelist it wins, alone all others are."),
    _once("--num.streams", "num_streams", "Streams of each source (threads in its registration)."),
    _once("--offset.commit.interval.ms", "offset_commit_interval_ms", "Interval between commits, in ms."),
    _once("--message.handler", "message_handler", "package.module:function, called with each message."),
)
