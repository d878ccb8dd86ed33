"""Option --zk-config: address and credentials of ZooKeeper from a consumer's configuration, so that a password is
stored only once.

The file may be a whole consumer configuration or only its zookeeper.* options; it is checked like a consumer's.  In a
.properties file, which may be of any JVM release, options that are not about ZooKeeper are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from groundwork.optionfiles import properties_file, yaml_file
from groundwork.options import OptionError
from groundwork.zksecurity import ZooKeeper
from zkconsumer.options.config import ConsumerConfig, load_consumer

CONNECT = ("zookeeper.connect", "zk.connect")
PREFIXES = ("zookeeper.", "zk.")
IGNORED = frozenset(  # options of a consumer in YAML that other commands do not use
    (
        "group.id",
        "groupid",
        "auto.offset.reset",
        "autooffset.reset",
        "partitions",
        "metadata.broker.list",
        "offsets.file",
    )
)


def read_values(file: Path, option: str = "--zk-config") -> tuple[dict[str, object], bool]:
    """Return a file's options, and whether it is a JVM's (.properties: all values are text).  Raises
    click.UsageError."""
    jvm = file.suffix not in (".yaml", ".yml")
    try:
        values = properties_file(file) if jvm else yaml_file(file)
    except OptionError as e:
        raise click.UsageError(f"{option} {'; '.join(e.problems)}") from None
    if values is None:
        return {}, jvm
    if not isinstance(values, Mapping):
        raise click.UsageError(f"{option} {file}: expected options, each with its value")
    return dict(values), jvm


def zookeeper_of(connect: str | None, values: Mapping[str, object], where: str, jvm: bool) -> ZooKeeper | None:
    """Return the ZooKeeper that connect, or else the file, names; None if neither does.  Raises click.UsageError.

    where: the file's name, first in every sentence.
    """
    left = {
        key: value for key, value in values.items() if (str(key).startswith(PREFIXES) if jvm else key not in IGNORED)
    }
    if connect is not None:
        left = {key: value for key, value in left.items() if key not in CONNECT}
        left[CONNECT[0]] = connect
    elif not any(key in left for key in CONNECT):
        return None
    try:
        config = load_consumer(ConsumerConfig, {**left, "group.id": "-", "auto.offset.reset": "smallest"}, where, jvm)
    except OptionError as e:
        raise click.UsageError(str(e)) from None
    return ZooKeeper(config.zookeeper_connect, config.security)
