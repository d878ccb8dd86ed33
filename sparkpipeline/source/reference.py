"""The options of format("kafka08") as a table of Markdown: python -m sparkpipeline.source.reference."""

from __future__ import annotations

import dataclasses

from groundwork.options import specs
from groundwork.optionvalues import Option
from sparkpipeline.source.options import OF_SPARK, REFUSED, WITHOUT_EFFECT, SourceOptions

HEAD = "| option | default | unit | meaning |\n|---|---|---|---|\n"
NO_DEFAULT = {"kafka.bootstrap.servers": "required"}


def table() -> str:
    """Every option that does something, in the order of SourceOptions; those that Spark's kafka has not are marked."""
    defaults = {field.name: field.default for field in dataclasses.fields(SourceOptions)}
    return HEAD + "".join(_row(spec, defaults[name]) for name, spec in specs(SourceOptions).items())


def refused() -> str:
    """What is refused, and what is taken and does nothing."""
    rows = [f"| `{name}` | refused: {why} |\n" for name, why in sorted(REFUSED.items())]
    rows += [f"| `{name}` | no effect: {why} |\n" for name, why in sorted(WITHOUT_EFFECT.items())]
    return "| option | what becomes of it |\n|---|---|\n" + "".join(rows)


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
    print(table())
    print(refused(), end="")
