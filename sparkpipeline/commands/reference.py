"""`python -m sparkpipeline.commands.reference source | sink | load | stages`: tables of all options, as Markdown.

docs/spark-options.md, spark-load.md and spark-stages.md hold them; a test compares.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping

from groundwork.options import reference, specs
from groundwork.optionvalues import Option
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.sink.options import SinkOptions
from sparkpipeline.source.options import OF_SPARK, REFUSED, WITHOUT_EFFECT, SourceOptions
from sparkpipeline.stages.config import PipelineFile

HEAD = "| option | default | unit | meaning |\n|---|---|---|---|\n"
NO_DEFAULT = {"kafka.bootstrap.servers": "required"}


def source_table() -> str:
    """Every option of reading that does something; those that Spark's kafka has not are marked."""
    defaults = {field.name: field.default for field in dataclasses.fields(SourceOptions)}
    return HEAD + "".join(_row(spec, defaults[name]) for name, spec in specs(SourceOptions).items())


def source_refused() -> str:
    """Options of reading that are refused, and those that are taken and do nothing."""
    rows = [f"| `{name}` | refused: {why} |\n" for name, why in sorted(REFUSED.items())]
    rows += [f"| `{name}` | no effect: {why} |\n" for name, why in sorted(WITHOUT_EFFECT.items())]
    return "| option | what becomes of it |\n|---|---|\n" + "".join(rows)


def sink_table() -> str:
    return reference(SinkOptions, older="also")


def load_table() -> str:
    return reference(LoadConfig, older=None)


def stages_tables() -> str:
    """Options of a pipeline's file, of each load and of each stage."""
    return reference(PipelineFile, heading="###", older=None)


TABLES: Mapping[str, Callable[[], str]] = {
    "source": lambda: f"{source_table()}\n{source_refused()}",
    "sink": sink_table,
    "load": load_table,
    "stages": stages_tables,
}


def _row(spec: Option, default: object) -> str:
    names = " ".join(f"`{name}`" for name in (spec.key, *spec.old))
    choices = f" ({', '.join(map(str, spec.choices))})" if spec.choices else ""
    ours = "" if OF_SPARK.intersection((spec.key, *spec.old)) else " **+**"
    meaning = (spec.meaning + choices).replace("|", "\\|")
    return f"| {names}{ours} | {_default(spec, default)} | {spec.unit} | {meaning} |\n"


def _default(spec: Option, default: object) -> str:
    if spec.key in NO_DEFAULT:
        return NO_DEFAULT[spec.key]
    if default is None or default == ():
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(f"usage: python -m sparkpipeline.commands.reference {'|'.join(TABLES)}")
    print(TABLES[sys.argv[1]](), end="")
