"""`python -m mirrormaker.commands.reference > docs/configuration.md`: the page of all options, from their fields."""

from __future__ import annotations

from collections.abc import Mapping

from groundwork.options import reference
from mirrormaker.config import TARGET_OVERRULED
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
Keys of the JVM's newer client (`bootstrap.servers` …) are errors that name the key to give.

# Options of the mirror

A file has three sections.  `mirrormaker check FILE` says what is wrong, `--online` also connects.  `--unknown-options
warn` (of `run` and `check`) makes an unknown option a warning, as for the JVM.  Examples: `conf/`.

A mirror sets some options itself: it commits (`auto.commit.enable`) every `offset.commit.interval.ms`, waits for ever
(`consumer.timeout.ms`), retries for ever (`message.send.max.retries`), refuses `request.required.acks` 0, and takes a
number of replicas (2 and more) as -1, all in-sync ones.

The original's `.properties` files are read as they are (`--consumer.config`, `--producer.config`).  They may also hold
the options below that the JVM does not know, such as `version` and `target.zookeeper.connect`.  A key of the JVM's
newer client beside the key to give is a warning: the clients of 0.8.2 ignore them, too.  A JVM class that is not known
here (`partitioner.class`, serializers) is an error that says what to name instead; with `--unknown-options warn` it is
a warning that says what decides.  [Which are known](transform.md#partitioners-and-encoders).

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
    mirror = f"{MIRROR}{reference(FileOptions, '##', 'other name')}{none}"
    consumer = f"{CONSUMER}{reference(ConsumerConfig, older='other name')}"
    producer = f"{PRODUCER}{reference(ProducerConfig, older='other name')}"
    consumer += _without_effect("the consumer", ConsumerConfig.JVM_ONLY) + _newer("consumer", ConsumerConfig.NEWER)
    producer += _without_effect("the producer", ProducerConfig.JVM_ONLY) + _newer("producer", ProducerConfig.NEWER)
    return f"{mirror}{consumer}{producer}"


def _without_effect(section: str, reasons: Mapping[str, str]) -> str:
    rows = "".join(f"| `{key}` | {why} |\n" for key, why in sorted(reasons.items()))
    return f"\n## Without effect in {section}\n\nEach of these is a warning.\n\n| option | why |\n|---|---|\n{rows}"


def _newer(program: str, instead: Mapping[str, str]) -> str:
    rows = "".join(f"| `{key}` | {name} |\n" for key, name in sorted(instead.items()))
    return f"\n## Keys of the JVM's newer {program}\n\n| key | give instead |\n|---|---|\n{rows}"


if __name__ == "__main__":
    print(page(), end="")
