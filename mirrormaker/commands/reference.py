"""`python -m mirrormaker.commands.reference > docs/configuration.md`: the page of all options, from their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groundwork.options import reference
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

MIRROR = """\
# Options of mirror, consumer and producer

Made by `python -m mirrormaker.commands.reference`; do not edit it by hand (a test compares).

| program | its options |
|---|---|
| `mirrormaker run`, `check` | [of the mirror](#options-of-the-mirror): YAML, or the original's `.properties` |
| `ConsumerConnector`, `zkconsumer consume --consumer-property` | [of the consumer](#options-of-the-consumer) |
| `Producer`, `zkproducer --property` | [of the producer](#options-of-the-producer) |
| Spark's format `kafka08` | [spark](spark-options.md#options-of-reading) |
| `sparkpipeline load` | [load jobs](spark-load.md#options-of-a-job) |

Names are Kafka's own; those of 0.7 are taken, too ("other name").  An unknown one is an error that names the nearest.
Keys of the JVM's newer client (`bootstrap.servers` …) are errors that name the key to give, except in the JVM's files.

# Options of the mirror

A file has three sections.  Pages and messages write an option of the section `mirror` with it, as `mirror.drop.fields`:
in the section both names are taken.  `mirrormaker check FILE` says what is wrong, `--online` also connects.
`--unknown-options warn` (of `run` and `check`) makes an unknown option a warning, as for the JVM.  Examples: `conf/`.

A mirror sets some options itself: it commits (`auto.commit.enable`) every `offset.commit.interval.ms`, waits for ever
(`consumer.timeout.ms`), retries for ever (`message.send.max.retries`), refuses `request.required.acks` 0, and takes a
number of replicas (2 and more) as -1, all in-sync ones.

The original's `.properties` files, 0.7 to 2.x, are read as they are (`--consumer.config`, `--producer.config`);
[what their keys mean](#keys-of-the-jvms-files).  They may also hold the options below that the JVM does not know, such
as `version` and `target.zookeeper.connect`.  A JVM class that is not known here (`partitioner.class`, serializers) is
an error that says what to name instead; with `--unknown-options warn` it is a warning that says what decides.
[Which are known](transform.md#partitioners-and-encoders).

"""

JVM_FILES = """
## Keys of the JVM's files

What a `consumer.properties` and a `producer.properties` may hold beside the options above.  Taken: the option here that
it sets.  Ignored: it changes nothing of what arrives; one line for each file says which, and why.  Refused: it would
change what arrives, or cannot be done here.  A key of no release is an error that names the nearest.

What the files say together:

| file | is read as |
|---|---|
| a consumer by `zookeeper.connect` | a member of the group in ZooKeeper |
| by `bootstrap.servers` alone, or with `--new.consumer` | a member of the group on Kafka's coordinator |
| by `zk.connect` | the same of Kafka 0.7 (`version=0.7.2`) |
| by both addresses, without the flag | refused: which offsets count depends on the JVM's release |
| a producer by `zk.connect` alone | a target of 0.7 (`target.zookeeper.connect`, `target.version=0.7.2`) |
| by `broker.list` with ids, as 0.7 has it | refused: only ZooKeeper knows the partitions of 0.7 |
| with keys of 0.8's producer and of the newer one | 0.8's count; with `--new.producer` the newer ones |
| `request.required.acks=0`, `acks=0` | -1: what is not acknowledged could never be committed |
| a key of the other of the two files | ignored |

"""

CONSUMER = """
# Options of the consumer

A mapping of these names, or a `ConsumerConfig`, is what `ConsumerConnector` takes ([the consumer](consumer.md)).
Values may be text, as in a `.properties` file.  Different from a source of a mirror: `auto.offset.reset` is required,
the release is `kafka.version`, `corrupt.message.policy` has three choices, and `partitions` reads fixed ones.

"""

PRODUCER = """
# Options of the producer

A mapping of these names, or a `ProducerConfig`, is what `Producer` takes ([the producer](producer.md)).  Different from
the target of a mirror: retries are bounded by default, and no name begins with `target.`.

"""


def page() -> str:
    """The whole page, as markdown."""
    none = _without_effect("`sources`", SourceOptions.JVM_ONLY) + _without_effect(
        "`target`", TargetOptions.JVM_ONLY | TARGET_OVERRULED
    )
    mirror = f"{MIRROR}{reference(FileOptions, '##', 'other name')}{none}{JVM_FILES}"
    mirror += _fates("consumer.properties", fates(CONSUMER_NAMES, CONSUMER_IGNORED, {}))
    mirror += _fates("producer.properties", fates(PRODUCER_NAMES, PRODUCER_IGNORED, PRODUCER_REFUSED))
    consumer = f"{CONSUMER}{reference(ConsumerConfig, older='other name')}"
    producer = f"{PRODUCER}{reference(ProducerConfig, older='other name')}"
    consumer += _without_effect("the consumer", ConsumerConfig.JVM_ONLY) + _newer("consumer", ConsumerConfig.NEWER)
    producer += _without_effect("the producer", ProducerConfig.JVM_ONLY) + _newer("producer", ProducerConfig.NEWER)
    return f"{mirror}{consumer}{producer}"


def _without_effect(section: str, reasons: Mapping[str, str]) -> str:
    rows = "".join(f"| `{key}` | {why} |\n" for key, why in sorted(reasons.items()))
    return f"\n## Without effect in {section}\n\nEach of these is a warning.\n\n| option | why |\n|---|---|\n{rows}"


def _fates(file: str, rows: Iterable[tuple[str, str, str]]) -> str:
    table = "".join(f"| `{key}` | {fate} | {why} |\n" for key, fate, why in rows)
    return f"### Keys of `{file}`\n\n| key | is | as what, or why |\n|---|---|---|\n{table}\n"


def _newer(program: str, instead: Mapping[str, str]) -> str:
    rows = "".join(f"| `{key}` | {name} |\n" for key, name in sorted(instead.items()))
    return f"\n## Keys of the JVM's newer {program}\n\n| key | give instead |\n|---|---|\n{rows}"


if __name__ == "__main__":
    print(page(), end="")
