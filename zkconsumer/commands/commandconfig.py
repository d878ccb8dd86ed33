"""Option --command-config: how a command connects to brokers, from a file with security.protocol, ssl.* and sasl.*.

The file may be a whole consumer configuration, .yaml or .properties, or only these options; it is checked like a
consumer's, and options that are not about connections are ignored.  A --zk-config file counts too if it has them.  The
choice belongs to the running command: link_pool() and readers without a pool use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from groundwork.options import OptionError, specs
from groundwork.output import print_note
from groundwork.zksecurity import ZkSecurityOptions
from kafkawire.net.security import OPEN, Security
from kafkawire.securityoptions import NEWER, SecurityOptions, unsafe_security
from zkconsumer.commands.zkconfig import read_values
from zkconsumer.options.config import ConsumerConfig, load_consumer

_SECURITY, _OPTIONS, _CHECKED = (f"zkconsumer.{what}" for what in ("security", "securityoptions", "unchecked"))
KEYS = frozenset(
    spec.key for name, spec in specs(SecurityOptions).items() if name not in specs(ZkSecurityOptions)
) | frozenset(NEWER)


def chosen_security() -> Security:
    """Return the security of the running command's connections to brokers; see chosen_options()."""
    found = _chosen().get(_SECURITY)
    return found if isinstance(found, Security) else OPEN


def chosen_options() -> Mapping[str, str]:
    """Return the chosen security as options of a consumer, with text values.

    Options that expose a secret to strangers are named on stderr, once, before anything is connected to.
    """
    found: Mapping[str, str] = _chosen().get(_OPTIONS, {})
    return found


def _chosen() -> Mapping[str, Any]:
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return {}
    if _CHECKED in ctx.meta:
        config, file = ctx.meta.pop(_CHECKED)
        for sentence in unsafe_security(config, found_in_zookeeper=not ctx.params.get("brokers"), file=file):
            print_note(f"warning: {file.name}: {sentence}")
    return ctx.meta


def choose_file(ctx: click.Context, param: click.Parameter, file: Path | None) -> None:
    """Choose the file given by the option (callback of click).  Raises click.UsageError."""
    if file is not None:
        values, jvm = read_values(file, "--command-config")
        choose(ctx, values, file, jvm)


def choose(ctx: click.Context, values: Mapping[str, object], file: Path, jvm: bool) -> None:
    """Choose the connection options in `values`, unless a file was chosen before.  Raises UsageError."""
    said = {key: value for key, value in values.items() if key in KEYS}
    if _SECURITY in ctx.meta or not said:
        return
    needed: dict[str, object] = {"zookeeper.connect": "-", "group.id": "-", "auto.offset.reset": "smallest"}
    try:
        config = load_consumer(ConsumerConfig, {**said, **needed}, file.name, jvm)
    except OptionError as e:
        raise click.UsageError(str(e), ctx) from None
    ctx.meta[_SECURITY] = config.kafka_security
    ctx.meta[_CHECKED] = config, file
    ctx.meta[_OPTIONS] = {key: str(value) for key, value in said.items()}
