"""The command line of the original MirrorMaker (0.7.1 to 0.10): flags that are taken, and flags that change nothing.

taken            --consumer.config (repeatable: one connector a source)  --producer.config  --whitelist | --blacklist
                 --num.streams  --offset.commit.interval.ms  --message.handler
                 --new.consumer, --new.producer: which client the files are for (mirrormaker.jvmfiles)
without effect   each of WITHOUT_EFFECT: a warning with the reason, so that a start script runs unchanged
refused          each of REFUSED: it would change what arrives

Its parser (jopt) takes one dash for two, and the beginning of a flag that no other begins with; so do these commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import click

from groundwork.commands import Command, option_block
from mirrormaker import exits

GIVEN = "mirrormaker.flags.without.effect"  # where the context keeps the sentences on them


class WithoutEffect(NamedTuple):
    """A flag of the original, and why it changes nothing here.  flags: its spellings in all releases."""

    flags: tuple[str, ...]
    reason: str
    takes_value: bool = True

    def sentence(self, flag: str) -> str:
        return f"command line: {flag} has no effect here: {self.reason}"


TAKEN = (
    "--consumer.config",
    "--producer.config",
    "--whitelist",
    "--blacklist",
    "--num.streams",
    "--offset.commit.interval.ms",
    "--message.handler",
    "--new.consumer",
    "--new.producer",
)
WITHOUT_EFFECT = (
    WithoutEffect(("--num.producers",), "num.producer.connections sets the connections to each target broker"),
    WithoutEffect(("--queue.size",), "memory is bounded in bytes: queued.max.bytes in the consumer config"),
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


REFUSED = {
    "--topicMapList": "is of a patched MirrorMaker: 'topic.rename=old:new,…' in the consumer's file does that here",
}


class UsageRefused(click.UsageError):
    exit_code = exits.USAGE


class ConfiguredCommand(Command):
    """A command that is given the original's flags, spelled as its parser takes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spelled_out(args, self.params))


def spelled_out(args: Sequence[str], params: Sequence[click.Parameter]) -> list[str]:
    """Return a command line with the original's flags spelled out: -consumer.config and --consumer.c as
    --consumer.config."""
    options = {name: param for param in params if isinstance(param, click.Option) for name in param.opts}
    originals = [*TAKEN, *(flag for one in WITHOUT_EFFECT for flag in one.flags)]
    found: list[str] = []
    waiting = list(args)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            return [*found, word, *waiting]
        name, equals, value = word.partition("=")
        if word.startswith("-") and name not in options:
            begun = f"--{name.lstrip('-')}"
            exact = begun in {*originals, "--help"}
            meant = [begun] if exact else [one for one in originals if one.startswith(begun)]
            if len(meant) == 1 and len(begun) > len("--"):
                name = meant[0]
        found.append(f"{name}{equals}{value}")
        option = options.get(name)
        if option is not None and not option.is_flag and not equals and waiting:
            found.append(waiting.pop(0))
    return found


def original_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the original's flags, as options of a click command.

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
    for flag, why in REFUSED.items():
        found = click.option(flag, flag.strip("-"), expose_value=False, hidden=True, callback=_refuse(flag, why))(found)
    return option_block(*_TAKEN)(found)


def _refuse(flag: str, why: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value is not None:
            raise UsageRefused(f"{flag} {why}", context)

    return callback


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
    click.option(
        "--new.consumer", "new_consumer", is_flag=True, help="Read as a member of a group on Kafka's coordinator."
    ),
    click.option("--new.producer", "new_producer", is_flag=True, hidden=True),
)
