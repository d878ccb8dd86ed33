"""Options that are the same at every command of zkconsumer, and the argument that each gives.  Loads nothing heavy.

    @zookeeper_option()       -z, --zk-config, --zk-auth, --zk-tls, --zk-tls-ca    zookeeper: ZooKeeper, or None
    @brokers_option()         -b                                                   brokers: list of (host, port)
    @group_option()           --group                                              group: str, or None
    @kafka_version_option     --kafka-version, --command-config                    kafka_version: str

Options that other programs have too, such as -o and --execute, are in groundwork.commands.

    plan is shown;  if go_ahead(execute, "write 12 offsets of group billing"): ...

A wrong command line is a click.UsageError, exit code 2.  All codes: groundwork.output.EXIT.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from groundwork.commands import as_argument

if TYPE_CHECKING:
    from groundwork.zksecurity import ZooKeeper

AUTH_VARIABLE = "ZKCONSUMER_ZK_AUTH"
F = TypeVar("F", bound=Callable[..., Any])
_NO_NODE = re.compile(r"[/\x00-\x1f\x7f-\x9f]")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


# ZooKeeper ------------------------------------------------------------------------------------------------------------


def zookeeper_option(required: bool = True) -> Callable[[F], F]:
    """-z and the credentials, as one argument, zookeeper: ZooKeeper(connect, access) for common.connected().

    None when it is not required and not given.  The password is never printed, and not visible in ps when it comes from
    --zk-config or the environment; the command line wins over the file.
    """

    def make(
        zookeeper: str | None, zk_config: Path | None, zk_auth: str | None, zk_tls: bool, zk_tls_ca: Path | None
    ) -> ZooKeeper | None:
        return _zookeeper(zookeeper, zk_config, zk_auth, zk_tls, zk_tls_ca, required)

    return as_argument("zookeeper", make, _ZOOKEEPER)


def _identity(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    from groundwork.optionvalues import SecretUnreadable
    from groundwork.zksecurity import identity

    try:
        return identity(text).text
    except ValueError as e:
        by = "--zk-auth" if ctx.get_parameter_source("zk_auth") is _COMMAND_LINE else AUTH_VARIABLE
        if isinstance(e, SecretUnreadable):
            raise click.UsageError(f"{by}: {e}", ctx) from None
        raise click.UsageError(f"{by} is ***, expected {e}", ctx) from None


def connect_string(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The callback of every option that is a connect string of ZooKeeper."""
    from groundwork.zkconnect import parse_connect

    try:
        return parse_connect(text).text if text is not None else None
    except ValueError as e:
        raise click.UsageError(f"{param.opts[0]} is {text!r}, expected {e}", ctx) from None


_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE
_ZOOKEEPER = (
    click.option(
        "-z", "--zookeeper", metavar="HOST:PORT/CHROOT", callback=connect_string, help="ZooKeeper of the cluster."
    ),
    click.option(
        "--zk-config",
        type=_FILE,
        help="Consumer options, .yaml or .properties: zookeeper.auth, .set.acl, .ssl.*, and .connect without -z.",
    ),
    click.option(
        "--zk-auth",
        metavar="digest:USER:PASSWORD",
        envvar=AUTH_VARIABLE,
        show_envvar=True,
        callback=_identity,
        help="ZooKeeper credentials.",
    ),
    click.option("--zk-tls", is_flag=True, help="Use TLS for the connection to ZooKeeper."),
    click.option(
        "--zk-tls-ca", type=_FILE, help="Use TLS, with the CA certificates of this PEM file instead of the system's."
    ),
)


def _zookeeper(
    connect: str | None, file: Path | None, auth: str | None, tls: bool, ca: Path | None, required: bool
) -> ZooKeeper | None:
    from groundwork.zksecurity import ZooKeeper
    from zkconsumer.commands.zkconfig import read_values, zookeeper_of

    values, jvm = read_values(file) if file is not None else ({}, True)
    if file is not None:
        from zkconsumer.commands.commandconfig import choose

        choose(click.get_current_context(), values, file, jvm)
    flags: dict[str, object] = {"zookeeper.auth": auth} if auth is not None else {}
    if tls or ca is not None:
        flags["zookeeper.ssl.client.enable"] = "true" if jvm else True
    if ca is not None:
        flags["zookeeper.ssl.ca.location"] = str(ca)
    if connect is not None and not values and not flags:
        return ZooKeeper(connect)
    found = zookeeper_of(connect, {**values, **flags}, file.name if file is not None else "command line", jvm)
    if found is not None:
        return found
    ctx = click.get_current_context()
    if required:
        raise click.UsageError("-z (ZooKeeper) is missing", ctx)
    names = [f"--{name.replace('_', '-')}" for name in ctx.params if name.startswith("zk_")]
    given = [name for name in names if ctx.get_parameter_source(name[2:].replace("-", "_")) is _COMMAND_LINE]
    if given:
        raise click.UsageError(f"{', '.join(given)} says how ZooKeeper is reached: give -z too", ctx)
    return None


# brokers, groups, output ----------------------------------------------------------------------------------------------


def brokers_option(
    help: str = "Any brokers of the cluster, instead of ZooKeeper.", required: bool = False
) -> Callable[[F], F]:
    """-b, as brokers: list of (host, port), empty when it is not given."""
    names = ("-b", "--brokers", "--bootstrap-server")
    return click.option(*names, "brokers", metavar="HOST:PORT,…", callback=_addresses, required=required, help=help)


def group_option(required: bool = True, help: str = "Consumer group.") -> Callable[[F], F]:
    """--group, as group: str (None when it is not required and not given)."""
    return click.option("--group", required=required, metavar="GROUP", callback=group_name, help=help)


def kafka_version_option(command: F) -> F:
    """--kafka-version and --command-config.

    kafka_version is a str that kafkawire.dialects.expected knows, "" if it is not given.  The command is not passed the
    file of --command-config: commandconfig.chosen_security() has it.
    """
    option: Callable[[F], F] = click.option(
        "--kafka-version", default="", callback=_release, help="Release of the brokers.  [default: they are asked]"
    )
    secured: Callable[[F], F] = click.option(
        "--command-config",
        type=_FILE,
        expose_value=False,
        callback=_security,
        help="Options of the connections to brokers, .yaml or .properties: security.protocol, ssl.*, sasl.*.",
    )
    return option(secured(command))


def _security(ctx: click.Context, param: click.Parameter, file: Path | None) -> None:
    if file is not None:
        from zkconsumer.commands.commandconfig import choose_file

        choose_file(ctx, param, file)


def _addresses(ctx: click.Context, param: click.Parameter, text: str | None) -> list[tuple[str, int]]:
    from kafkawire.cluster.addresses import parse_addresses
    from kafkawire.errors import LocalError

    try:
        return parse_addresses(text, "-b") if text is not None else []
    except LocalError as e:
        raise click.UsageError(str(e), ctx) from None


def group_name(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """The callback of every option and argument that names a group: refuses what cannot be a node of ZooKeeper.

    Names of other clients' groups may have more than the JVM's letters, digits, '.', '_' and '-'.
    """
    if text is not None and (not text.strip() or text in (".", "..") or _NO_NODE.search(text)):
        by = param.opts[0] if isinstance(param, click.Option) else "GROUP"
        raise click.UsageError(f"{by} {text!r}: no group can be called that: a name is one folder of ZooKeeper", ctx)
    return text


def _release(ctx: click.Context, param: click.Parameter, text: str) -> str:
    from kafkawire.dialects import expected
    from kafkawire.errors import LocalError

    try:
        expected(text)
    except (LocalError, ValueError) as e:
        raise click.UsageError(str(e), ctx) from None
    return text


# writing --------------------------------------------------------------------------------------------------------------


def go_ahead(execute: bool, what: str, dry_run: bool = False) -> bool:
    """groundwork.commands.go_ahead(); while the user thinks, ZooKeeper sessions are kept alive.

    What the plan was made from may have changed all the same.
    """
    from groundwork import commands
    from groundwork.tasks import sleep

    return commands.go_ahead(execute, what, dry_run, sleep)
