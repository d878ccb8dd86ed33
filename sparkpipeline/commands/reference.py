"""`python -m sparkpipeline.commands.reference source | sink | load | stages`: tables of all options, as Markdown.

docs/spark-options.md, spark-load.md and spark-stages.md hold them; a test compares.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping

from groundwork.options import Options, reference, specs
from groundwork.optionvalues import Option
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.sink.options import SinkOptions
from sparkpipeline.source.options import OF_SPARK, REFUSED, WITHOUT_EFFECT, SourceOptions
from sparkpipeline.stages.config import PipelineFile

HEAD = "| option | default | meaning |\n|---|---|---|\n"
NO_DEFAULT = {"kafka.bootstrap.servers": "required"}
PREFIX = "kafka."  # before names of Kafka's options in a query


def source_table() -> str:
    """Every option of reading that does something; those that Spark's kafka has not are marked."""
    return HEAD + "".join(_row(*each, marked=True) for each in _options(SourceOptions))


def source_refused() -> str:
    """Options of reading that are refused, and those that are taken and do nothing; one row for each reason."""
    reasons: dict[str, list[str]] = {}
    for what, options in (("refused", REFUSED), ("no effect", WITHOUT_EFFECT)):
        for name, why in sorted(options.items()):
            reasons.setdefault(f"{what}: {why}", []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {reason} |\n" for reason, names in reasons.items()]
    return "| option | what becomes of it |\n|---|---|\n" + "".join(rows)


def sink_table() -> str:
    return _table_beside_reading(SinkOptions, "[reading](#options-of-reading)", older=True)


def load_table() -> str:
    reading = "[reading](spark-options.md#options-of-reading), there with `kafka.` before Kafka's own names"
    return _table_beside_reading(LoadConfig, reading, older=False)


def stages_tables() -> str:
    """Options of a pipeline's file, of each load and of each stage."""
    return reference(PipelineFile, heading="###", older=None)


TABLES: Mapping[str, Callable[[], str]] = {
    "source": lambda: f"{source_table()}\n{source_refused()}",
    "sink": sink_table,
    "load": load_table,
    "stages": stages_tables,
}


def _options(cls: type[Options]) -> Iterator[tuple[Option, object]]:
    """Each option of a class and its default."""
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    yield from ((spec, defaults[name]) for name, spec in specs(cls).items())


def _table_beside_reading(cls: type[Options], reading: str, older: bool) -> str:
    """Options of a class; those that mean the same as in reading are named below the table."""
    there = {_meant(*each) for each in _options(SourceOptions)}
    own = [each for each in _options(cls) if _meant(*each) not in there]
    shared = [f"`{spec.key}`" for spec, default in _options(cls) if _meant(spec, default) in there]
    rows = "".join(_row(*each, older=older) for each in own)
    return f"{HEAD}{rows}\nThe same as in {reading}: {', '.join(shared)}.\n"


def _meant(spec: Option, default: object) -> tuple[str, str, str]:
    """Name without its prefix, default and meaning: two options that have all of them in common are one."""
    return spec.key.removeprefix(PREFIX), _default(spec, default), spec.meaning


def _row(spec: Option, default: object, older: bool = True, marked: bool = False) -> str:
    """A row of a table.  older: with older names; marked: with a mark if Spark's kafka does not have the option."""
    names = " ".join(f"`{name}`" for name in (spec.key, *(spec.old if older else ())))
    choices = f" ({', '.join(map(str, spec.choices))})" if spec.choices else ""
    ours = "" if not marked or OF_SPARK.intersection((spec.key, *spec.old)) else " **+**"
    meaning = (spec.meaning + choices).replace("|", "\\|")
    return f"| {names}{ours} | {_default(spec, default)} | {meaning} |\n"


def _default(spec: Option, default: object) -> str:
    """The default with its unit; the unit alone stands in parentheses."""
    if spec.required or spec.key in NO_DEFAULT:
        return "required"
    if default is None or default == "" or default == ():
        return f"({spec.unit})" if spec.unit else ""
    value = str(default).lower() if isinstance(default, bool) else str(default)
    return f"{value} {spec.unit}".rstrip()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(f"usage: python -m sparkpipeline.commands.reference {'|'.join(TABLES)}")
    print(TABLES[sys.argv[1]](), end="")
