"""`python -m sparkpipeline.commands.reference source | sink | load | stages`: tables of all options, as Markdown.

docs/spark-options.md, spark-load.md and spark-stages.md hold them; a test compares.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping

from groundwork.options import Options, reference, specs
from groundwork.optionvalues import Option
from kafkawire.securityoptions import SecurityOptions
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.sink.sinkoptions import SinkOptions
from sparkpipeline.source.sourceoptions import OF_SPARK, REFUSED, WITHOUT_EFFECT, SourceOptions
from sparkpipeline.stages.pipelinefile import PipelineFile

HEAD = "| option | default | meaning |\n|---|---|---|\n"
NO_DEFAULT = {"kafka.bootstrap.servers": "required, or zookeeper.connect"}
CONNECTIONS = "[connections](configuration.md#options-of-connections)"  # of all programs


def source_table() -> str:
    """Return a table of reading options that have an effect; those that Spark's kafka format lacks are marked."""
    return _table(SourceOptions, marked=True)


def source_refused() -> str:
    """Return the reading options that are refused, and those without effect.  The error or warning has the reason."""
    lists = [", ".join(f"`{name}`" for name in sorted(names)) for names in (REFUSED, WITHOUT_EFFECT)]
    return f"Refused, with what to give instead: {lists[0]}.\n\nWithout effect, named in a warning: {lists[1]}.\n"


def sink_table() -> str:
    return _table(SinkOptions)


def load_table() -> str:
    return _table(LoadConfig, older=False)


def stages_tables() -> str:
    """Return tables of options of a pipeline's file, of each load and of each stage."""
    return reference(PipelineFile, heading="###", older=None)


TABLES: Mapping[str, Callable[[], str]] = {
    "source": lambda: f"{source_table()}\n{source_refused()}",
    "sink": sink_table,
    "load": load_table,
    "stages": stages_tables,
}


def _table(cls: type[Options], older: bool = True, marked: bool = False) -> str:
    """Return the options of a class, one row each; those of connections are listed below the table."""
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    connections = specs(SecurityOptions).keys()
    rows = [_row(spec, defaults[name], older, marked) for name, spec in specs(cls).items() if name not in connections]
    keys = [f"`{spec.key}`" for name, spec in specs(cls).items() if name in connections]
    prefix = ", there without `kafka.`" if any("kafka." in key for key in keys) else ""
    return f"{HEAD}{''.join(rows)}\nTLS, logins and credentials, as of {CONNECTIONS}{prefix}: {', '.join(keys)}.\n"


def _row(spec: Option, default: object, older: bool, marked: bool) -> str:
    """Return a row of a table.  older: with older names; marked: with a mark if Spark's kafka does not have the
    option."""
    names = " ".join(f"`{name}`" for name in (spec.key, *(spec.old if older else ())))
    unnamed = any(not re.search(rf"\b{re.escape(str(choice))}\b", spec.meaning) for choice in spec.choices)
    choices = f" ({', '.join(map(str, spec.choices))})" if unnamed else ""
    ours = "" if not marked or OF_SPARK.intersection((spec.key, *spec.old)) else " **+**"
    meaning = (spec.meaning + choices).replace("|", "\\|")
    return f"| {names}{ours} | {_default(spec, default)} | {meaning} |\n"


def _default(spec: Option, default: object) -> str:
    """Return the default with its unit; the unit alone stands in parentheses."""
    if spec.required or spec.key in NO_DEFAULT:
        return NO_DEFAULT.get(spec.key, "required")
    if default is None or default == "" or default == ():
        return f"({spec.unit})" if spec.unit else ""
    value = str(default).lower() if isinstance(default, bool) else str(default)
    return f"{value} {spec.unit}".rstrip()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TABLES:
        sys.exit(f"usage: python -m sparkpipeline.commands.reference {'|'.join(TABLES)}")
    print(TABLES[sys.argv[1]](), end="")
