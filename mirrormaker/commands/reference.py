"""`python -m mirrormaker.commands.reference > docs/configuration.md`: the page of all options, from their fields."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping

from groundwork.options import Options, reference
from mirrormaker.config import TARGET_OVERRULED
from mirrormaker.jvmfiles import (
    CONSUMER_IGNORED,
    CONSUMER_NAMES,
    PRODUCER_IGNORED,
    PRODUCER_NAMES,
    PRODUCER_REFUSED,
    fates,
)
from mirrormaker.options import FileOptions, SourceOptions, TargetOptions
from producer.config import ProducerConfig
from zkconsumer.options.config import ConsumerConfig

HEAD = "| option | default | meaning |\n|---|---|---|"
CHOICES, WORD = re.compile(r" \(([\w.-]+(?:, [\w.-]+)*)\)$"), re.compile(r"[\w.-]*[\w-]")
CONNECTIONS = ("| `ssl.", "| `sasl.", "| `security.protocol`", "| `zookeeper.auth`", "| `zookeeper.ssl.")

MIRROR = """\
# Options of mirror, consumer and producer

Made by `python -m mirrormaker.commands.reference`; do not edit it by hand (a test compares).

| program | its options |
|---|---|
| `mirrormaker run`, `check` | [of the mirror](#options-of-the-mirror): YAML, or the original's `.properties` |
| `ConsumerConnector`, `zkconsumer consume --consumer-property` | [of the consumer](#options-of-the-consumer) |
| `Producer`, `zkproducer --property` | [of the producer](#options-of-the-producer) |
| TLS, logins and ZooKeeper credentials of all of them | [of connections](#options-of-connections) |
| Spark's format `kafka08` | [spark](spark-options.md#options-of-reading) |
| `sparkpipeline load` | [load jobs](spark-load.md#options-of-a-job) |

Names are Kafka's own; older names, such as those of 0.7, follow them and work too.  An unknown option is an error
that names the nearest one, and so are [keys of the JVM's newer clients](#keys-of-the-jvms-newer-clients), except in the
JVM's files.

## Options of the mirror

A file has three sections: `sources`, `target`, `mirror`.  Pages and messages write an option of the section `mirror`
with its section, as `mirror.drop.fields`; the file takes both names.  `mirrormaker check FILE` says what is wrong, and
`--online` also connects.  With `--unknown-options warn` (of `run` and `check`) an unknown option is a warning, as for
the JVM.  Examples: `conf/`.

A mirror sets some options itself: it commits every `offset.commit.interval.ms` (`auto.commit.enable`), waits forever
(`consumer.timeout.ms`), retries forever (`message.send.max.retries`), refuses `request.required.acks` 0, and takes a
number of replicas (2 and more) as -1, all in-sync ones.

"""

SOURCES = """\
### `sources`

Source clusters, each with its consumer.  A source takes the options of [the consumer](#options-of-the-consumer) and of
[connections](#options-of-connections); these options are its own or have another default:

"""

TARGET = """
### `target`

The target cluster.  It takes the options of [the producer](#options-of-the-producer) and of
[connections](#options-of-connections), except those [without effect](#without-effect).  `zookeeper.connect` is
refused beside `metadata.broker.list`: the target's ZooKeeper is `target.zookeeper.connect`, to which
`zookeeper.session.timeout.ms` and `zookeeper.connection.timeout.ms` apply.  These options are the target's own or have
another default:

"""

NO_EFFECT = """
### Without effect

These options are accepted; a warning says why each has no effect.

"""

JVM_FILES = """
### Keys of the JVM's files

The original's `consumer.properties` and `producer.properties`, 0.7 to 2.x, are read as they are (`--consumer.config`,
`--producer.config`).  They may also hold the options above that the JVM does not know, such as `version` and
`target.zookeeper.connect`.  A key of no release, and an unknown JVM class, are errors that say what to name instead;
with `--unknown-options warn`, warnings.  [Known classes](transform.md#partitioners-and-encoders).

| file | is read as |
|---|---|
| a consumer by `zookeeper.connect` | a member of the group in ZooKeeper |
| by `bootstrap.servers` alone, or with `--new.consumer` | a member of the group on Kafka's coordinator |
| by `zk.connect` | a member of the group in ZooKeeper of Kafka 0.7 (`version=0.7.2`) |
| by both addresses, without the flag | refused: which offsets count depends on the JVM's release |
| a producer by `zk.connect` alone | a target of 0.7 (`target.zookeeper.connect`, `target.version=0.7.2`) |
| by `broker.list` with ids, as 0.7 has it | refused: only ZooKeeper knows the partitions of 0.7 |
| with keys of 0.8's producer and of the newer one | 0.8's count; with `--new.producer` the newer ones |
| `request.required.acks=0`, `acks=0` | -1: what is not acknowledged could never be committed |
| a key of the other of the two files | ignored |

"""

IGNORED = """\
#### Keys that are ignored

They change nothing of what arrives; `check` says why.

"""

CONSUMER = """
## Options of the consumer

`ConsumerConnector` takes a mapping of these names, or a `ConsumerConfig` ([the consumer](consumer.md)).  Values may be
text, as in a `.properties` file.  TLS, logins and ZooKeeper credentials: [connections](#options-of-connections).

"""

PRODUCER = """
## Options of the producer

`Producer` takes a mapping of these names, or a `ProducerConfig` ([the producer](producer.md)).  TLS, logins and
ZooKeeper credentials: [connections](#options-of-connections).

"""

SHARED = """
## Options of connections

Sources, target, consumers and producers all take them ([security](security.md)).

"""

NEWER = """
## Keys of the JVM's newer clients

Each of these is an error in the options of a consumer or producer, which says what to give instead.

"""


def page() -> str:
    """Return the whole page, as markdown."""
    of_consumer, of_producer = _rows(ConsumerConfig), _rows(ProducerConfig)
    both = [row for row in of_consumer if row in of_producer and row.startswith(CONNECTIONS)]
    head, _, rest = _short(reference(FileOptions, "###", "other name")).partition("### `mirror`")
    assert head.startswith("### `sources`")
    mirror = (
        f"{MIRROR}{SOURCES}{_table(row for row in _rows(SourceOptions) if row not in of_consumer)}"
        f"{TARGET}{_table(_target_rows(of_producer, both))}\n### `mirror`{rest}\n"
        f"{_without_effect()}{JVM_FILES}{_fates()}"
    )
    consumer = f"{CONSUMER}{_table(row for row in of_consumer if row not in both)}"
    producer = f"{PRODUCER}{_table(row for row in of_producer if row not in both)}"
    newer = _listed({"consumer": ConsumerConfig.NEWER, "producer": ProducerConfig.NEWER})
    return _one_row_a_meaning(f"{mirror}{consumer}{producer}{SHARED}{_table(both)}{NEWER}{newer}")


def _rows(options: type[Options]) -> list[str]:
    """Lines of the table of options, without its head."""
    return _short(reference(options, older="other name")).split("\n")[2:]


def _short(tables: str) -> str:
    """Tables of options in three columns: older names behind the name, the unit behind the default, and choices only if
    the meaning does not name them."""
    lines = []
    for line in tables.rstrip("\n").split("\n"):
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ", 4)
        if line == "|" + "---|" * 5:
            lines.append("|" + "---|" * 3)
        elif line.startswith("| ") and len(cells) == 5:
            name, older, default, unit, meaning = cells
            if name == "option":
                older = ""
            elif default not in ("", "required"):
                default = f"{default} {unit}".rstrip()
            choices = CHOICES.search(meaning)
            if choices is not None and set(choices[1].split(", ")) <= set(WORD.findall(meaning[: choices.start()])):
                meaning = meaning[: choices.start()]
            lines.append(f"| {' '.join(filter(None, (name, older)))} | {default} | {meaning} |")
        else:
            lines.append(line)
    return "\n".join(lines)


def _one_row_a_meaning(page: str) -> str:
    """Return the page with neighbouring rows of its tables in one if only their first cells differ."""
    lines: list[str] = []
    for line in page.split("\n"):
        cell, bar, rest = line.partition(" | ")
        if bar and lines and lines[-1].startswith("| `") and lines[-1].endswith(bar + rest):
            line = f"{lines.pop().removesuffix(bar + rest)}, {cell.removeprefix('| ')}{bar}{rest}"
        lines.append(line)
    return "\n".join(lines)


def _target_rows(producer: Container[str], both: Container[str]) -> Iterator[str]:
    """Yield the rows of a target that differ from the producer's; credentials and TLS of its ZooKeeper in one row."""
    same = []
    for row in _rows(TargetOptions):
        if row.startswith("| `target.zookeeper.") and row.replace("target.zookeeper", "zookeeper") in both:
            same.append(row.split("`")[1])
        elif row not in producer:
            yield row
    names = ", ".join(f"`{name}`" for name in same)
    yield f"| {names} |  | as `zookeeper.auth` and `zookeeper.ssl.…` of [connections](#options-of-connections) |"


def _table(rows: Iterable[str]) -> str:
    return "\n".join([HEAD, *rows, ""])


def _grouped(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield rows (key, what it is, …), the keys of equal rows in one, in the order of their first keys."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for key, *others in rows:
        groups.setdefault(tuple(others), []).append(f"`{key}`")
    for rest, keys in groups.items():
        yield ", ".join(keys), *rest


def _of_files(rows: Mapping[str, Iterable[tuple[str, ...]]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of two files or programs as one: (key, …, the names of those that have the row)."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, of_one in rows.items():
        for row in of_one:
            found.setdefault(row, []).append(name)
    for (key, *rest), names in sorted(found.items()):
        yield key, *rest, ", ".join(names)


def _listed(keys: Mapping[str, Iterable[str]]) -> str:
    """Return a line for the keys of each file or program, and for those of several."""
    rows = _grouped(_of_files({name: [(key,) for key in of_one] for name, of_one in keys.items()}))
    return "".join(f"- {name}: {found}\n" for found, name in rows)


def _without_effect() -> str:
    assert ConsumerConfig.JVM_ONLY == SourceOptions.JVM_ONLY
    keys = {
        "sources, consumer": ConsumerConfig.JVM_ONLY,
        "target": TargetOptions.JVM_ONLY | TARGET_OVERRULED,
        "producer": ProducerConfig.JVM_ONLY,
    }
    return f"{NO_EFFECT}{_listed({name: list(of_one) for name, of_one in keys.items()})}"


def _fates() -> str:
    """Keys of the JVM's files: which option each sets, which are refused, and (without the reasons) ignored."""
    files = {
        "consumer": list(fates(CONSUMER_NAMES, CONSUMER_IGNORED, {})),
        "producer": list(fates(PRODUCER_NAMES, PRODUCER_IGNORED, PRODUCER_REFUSED)),
    }
    text = ""
    for fate, why in (("taken", "as"), ("refused", "why")):
        rows = {name: [(key, said) for key, is_, said in of_one if is_ == fate] for name, of_one in files.items()}
        lines = "".join(f"| {keys} | {file} | {said} |\n" for keys, said, file in _grouped(_of_files(rows)))
        text += f"#### Keys that are {fate}\n\n| key | file | {why} |\n|---|---|---|\n{lines}\n"
    ignored = {name: [key for key, is_, _ in of_one if is_ == "ignored"] for name, of_one in files.items()}
    return f"{text}{IGNORED}{_listed(ignored)}"


if __name__ == "__main__":
    print(page(), end="")
