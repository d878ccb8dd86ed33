"""`python -m mirrormaker.commands.reference > docs/configuration.md`: the page of all options, from their fields."""

from __future__ import annotations

from collections.abc import Mapping

from groundwork.options import reference
from mirrormaker.config import TARGET_OVERRULED
from mirrormaker.options import FileOptions, SourceOptions, TargetOptions

HEADER = """\
# Configuration of the mirror

Made by `python -m mirrormaker.commands.reference`; do not edit it by hand (a test compares).

A file has three sections.  Option names are Kafka's own; those of 0.7 are taken, too ("other name").  An unknown one is
an error that names the nearest; `--unknown-options warn` (of `run` and `check`) makes it a warning, as for the JVM.
`mirrormaker check FILE` says what is wrong, `--online` also connects.  Examples: `conf/`.

A mirror sets some options itself: it commits (`auto.commit.enable`) every `offset.commit.interval.ms`, waits for ever
(`consumer.timeout.ms`), retries for ever (`message.send.max.retries`), and refuses `request.required.acks` 0.

The original's `.properties` files are read as they are (`--consumer.config`, `--producer.config`).  They may also hold
the options below that the JVM does not know, such as `version` and `target.zookeeper.connect`.  Keys of the JVM's newer
client (`bootstrap.servers`) are errors that name the key to give, but a warning beside that key: the clients of 0.8.2
ignore them, too.  Classes that a mirror has no use for (`partitioner.class`, serializers) are a warning, whatever they
name.

"""


def page() -> str:
    """The whole page, as markdown."""
    none = _without_effect("sources", SourceOptions.JVM_ONLY) + _without_effect(
        "target", TargetOptions.JVM_ONLY | TARGET_OVERRULED
    )
    return f"{HEADER}{reference(FileOptions, '##', 'other name')}{none}"


def _without_effect(section: str, reasons: Mapping[str, str]) -> str:
    rows = "".join(f"| `{key}` | {why} |\n" for key, why in sorted(reasons.items()))
    return f"\n## Without effect in `{section}`\n\nEach of these is a warning.\n\n| option | why |\n|---|---|\n{rows}"


if __name__ == "__main__":
    print(page(), end="")
