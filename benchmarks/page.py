"""Writes the pages and charts of results from the JSON files of benchmarks/results.

    python benchmarks/page.py [--check]

benchmarks/results/README.md has every figure and every run, with a chart NAME-light.svg and NAME-dark.svg beside it for
each benchmark.  docs/performance.md has the ten FIGURES between the lines <!-- results --> and <!-- end of results -->,
with the chart docs/performance/figures-light.svg (and -dark); the rest of that page is written by hand.  A chart has a
bar for each figure with a target, as a share of the target, which is the line in the middle.  --check writes nothing,
and ends with 1 if a page or a chart differs from what the JSON files say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
TABLES = RESULTS / "README.md"
PAGE = HERE.parent / "docs" / "performance.md"
CHARTS = PAGE.with_suffix("")
PER_CPU, PER_S = "messages per CPU second", "messages per second"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
WIDTH, ROW, LEFT, BARS = 860, 26, 330, 360  # of a chart, in pixels; LEFT: of the bars
REACHED = {True: "yes", False: "**no**", None: ""}
MOST = 2.0  # times the target: a longer bar is cut

HEAD = """# Results of the benchmarks

Every figure and every run, as `make bench` measured them on one machine.  How they are measured, and the ten figures to
begin with: [performance](../../docs/performance.md).  Made by `python benchmarks/page.py` from the JSON files beside
this page.

A chart has a bar for each figure with a target, as long as the share of the target that it reaches.  The dashed line is
the target; bars end at twice of it.  If the target is an upper bound, a longer bar is a smaller figure.
"""

TITLES = {
    "figures": "Ten figures",
    "mirror": "A mirror against the JVM's MirrorMaker 0.8.2.2",
    "mirror_modern": "Into and between clusters of today",
    "latency": "Latency that a mirror adds, and its start",
    "scaling": "Many partitions",
    "longlink": "A long link",
    "workers": "Workers",
    "handlers": "What a handler costs",
    "produce": "Producer",
    "spark": "Spark",
    "mirror07": "Out of 0.7",
    "consume": "Consumer",
    "decode07": "Sets of 0.7 in memory",
    "verify": "verify",
    "security": "TLS",
    "offsetmap": "Offset map",
    "httplisten": "Being watched",
}

FIGURES = {  # (benchmark, work, who, unit, peer) of the ten figures in docs/performance.md -> their names there
    ("mirror", "plain, 100 B", "ours", PER_CPU, "jvm"): "mirror 0.8.2.2 to 0.8.2.2, plain, 100 B",
    ("mirror", "gzip, 100 B", "ours", PER_CPU, "jvm"): "mirror 0.8.2.2 to 0.8.2.2, gzip, 100 B",
    (
        "mirror",
        "keyed, 10,000 keys, 100 B",
        "ours",
        PER_CPU,
        "jvm",
    ): "mirror 0.8.2.2 to 0.8.2.2, keys choose the partition",
    ("mirror", "handlers, 100 B", "message handler", PER_CPU, "jvm"): "mirror 0.8.2.2 to 0.8.2.2, message.handler",
    ("mirror_modern", "0.8.2.2 to 3.9.1, 100 B", "ours", PER_CPU, "MirrorMaker"): "mirror 0.8.2.2 to 3.9.1, 100 B",
    ("mirror_modern", "3.9.1 to 3.9.1, 100 B", "ours", PER_CPU, "MirrorMaker 2"): "mirror 3.9.1 to 3.9.1, 100 B",
    ("latency", "half load, 100 B", "ours", "p99 ms", None): "latency that a mirror adds",
    (
        "longlink",
        "far target, plain, 1 KB",
        "ours",
        "share of the link",
        None,
    ): "mirror to a target 80 ms away, 100 Mbit/s",
    ("produce", "100 B", "send_many", PER_CPU, "confluent-kafka"): "producer, send_many, 100 B",
    ("spark", "100 B to parquet", "kafka08", PER_S, "tuples"): "Spark to Parquet, 100 B",
}
PEERS = {"jvm": "the JVM's MirrorMaker 0.8.2.2", "MirrorMaker": "the JVM's MirrorMaker"}


@dataclass(frozen=True, slots=True)
class Colours:
    text: str
    faint: str
    reached: str
    missed: str


LIGHT = Colours("#1f2328", "#d0d7de", "#2f81b7", "#bf5700")
DARK = Colours("#e6edf3", "#3d444d", "#58a6d6", "#e3893f")


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(figure: Mapping[str, Any]) -> str:
    """A figure with its unit."""
    value = number(figure["value"])
    return f"{value} × {figure['peer']}" if figure["peer"] else f"{value} {figure['what']}"


def target(figure: Mapping[str, Any]) -> str:
    if figure["target"] is None:
        return ""
    return f"{'≤' if figure['at_most'] else '≥'} {number(figure['target'])}"


def share(figure: Mapping[str, Any]) -> float:
    """What it is of its target, so that more is better."""
    value, wanted = float(figure["value"]), float(figure["target"])
    if not figure["at_most"]:
        return value / wanted
    return wanted / value if value else MOST


def chosen(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The FIGURES that the documents have, under their names in docs/performance.md, in the form of a document."""
    found = {
        (document["benchmark"], *(figure[name] for name in ("work", "who", "what", "peer"))): figure
        for document in documents
        for figure in document["figures"]
    }
    figures = [
        {**found[key], "work": name, "peer": PEERS.get(str(key[-1]), key[-1])}
        for key, name in FIGURES.items()
        if key in found
    ]
    return {"benchmark": "figures", "figures": figures}


# ---- tables ---------------------------------------------------------------------------------------------------------


def summary(documents: Sequence[Mapping[str, Any]]) -> str:
    """The ten figures of docs/performance.md and their chart."""
    document = chosen(documents)
    lines = [
        (figure["work"], measured(figure), figure["what"], target(figure), REACHED[figure["reached"]])
        for figure in document["figures"]
    ]
    return f"{picture(document, CHARTS.name + '/')}\n{rows(('work', 'figure', 'unit', 'target', 'reached'), lines)}"


def picture(document: Mapping[str, Any], folder: str = "") -> str:
    name = document["benchmark"]
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{folder}{name}-dark.svg">\n'
        f'  <img alt="{escape(alt(document))}" src="{folder}{name}-light.svg">\n</picture>\n'
    )


def tables(documents: Sequence[Mapping[str, Any]]) -> str:
    """benchmarks/results/README.md: for each benchmark its chart, figures and runs."""
    parts = [HEAD]
    for document in documents:
        name = document["benchmark"]
        machine = document["machine"]
        form = "short form" if document["short"] else "full form"
        about = "".join(f", {key} {value}" for key, value in document["about"].items())
        parts.append(f"## {TITLES.get(name, name)}\n")
        parts.append(
            f"`benchmarks/{name}.py`, {form}, {document['at'][:10]}; {machine['cores']} cores ({machine['cpu']}), "
            f"Python {machine['python']}{about}\n"
        )
        if aimed(document):
            parts.append(picture(document))
        parts.append(rows(("work", "who", "figure", "unit", "target", "reached"), map(figure_row, document["figures"])))
        parts.append(
            "<details><summary>Runs</summary>\n\n"
            + rows(
                ("work", "who", "messages", "seconds", "CPU seconds", "per s", "per CPU s", "also"),
                map(run_row, document["runs"]),
            )
            + "\n</details>\n"
        )
        parts.extend(f"Without {who}: {why}.\n" for who, why in document["absent"].items())
    return "\n".join(parts)


def rows(names: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n"
    return head + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def figure_row(figure: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        figure["work"],
        figure["who"],
        measured(figure),
        figure["what"],
        target(figure),
        REACHED[figure["reached"]],
    )


def measured(figure: Mapping[str, Any]) -> str:
    """A figure beside a column with its unit."""
    return shown(figure) if figure["peer"] else number(figure["value"])


def run_row(run: Mapping[str, Any]) -> tuple[str, ...]:
    def given(value: float | None) -> str:
        return "" if not value else number(value)

    def rate(seconds: float | None) -> str:
        return "" if not seconds else number(run["messages"] / seconds)

    also = ", ".join(f"{name} {number(value)}" for name, value in run["also"].items())
    also += "" if run["checked"] else " **messages differ**"
    times = given(run["clock_s"]), given(run["cpu_s"]), rate(run["clock_s"]), rate(run["cpu_s"])
    return run["work"], run["who"], number(run["messages"]), *times, also


def aimed(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The figures that have a target."""
    return [figure for figure in document["figures"] if figure["target"] is not None]


def alt(document: Mapping[str, Any]) -> str:
    figures = aimed(document)
    return f"{sum(map(bool, (each['reached'] for each in figures)))} of {len(figures)} targets reached"


# ---- charts ---------------------------------------------------------------------------------------------------------


def chart(document: Mapping[str, Any], colours: Colours) -> str:
    """Bars of the figures with a target; the line is the target."""
    figures = aimed(document)
    height = ROW * len(figures) + 40
    line = LEFT + BARS / MOST
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(TITLES.get(document['benchmark'], document['benchmark']))}: {alt(document)}</title>",
        f'<text x="{line}" y="14" fill="{colours.text}" text-anchor="middle">target</text>',
    ]
    for at, figure in enumerate(figures):
        top = 24 + at * ROW
        long = BARS * min(MOST, share(figure)) / MOST
        colour = colours.reached if figure["reached"] else colours.missed
        unit = " (CPU)" if figure["what"].endswith("CPU second") else " (clock)" if figure["peer"] else ""
        label = f"{figure['work']}: {figure['who']}{unit}"
        parts.append(
            f'<text x="{LEFT - 8}" y="{top + 14}" fill="{colours.text}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{LEFT}" y="{top + 3}" width="{long:.1f}" height="{ROW - 10}" fill="{colour}"/>'
            f'<text x="{LEFT + BARS + 8}" y="{top + 14}" fill="{colours.text}">{escape(shown(figure))}, '
            f"{escape(target(figure))}</text>"
        )
    parts.append(f'<path d="M{line} 20V{height - 10}" stroke="{colours.text}" stroke-dasharray="3 3"/>')
    parts.append(f'<path d="M{LEFT} 20V{height - 10}" stroke="{colours.faint}"/></svg>')
    return "\n".join(parts) + "\n"


# ---- files ----------------------------------------------------------------------------------------------------------


def made(documents: Sequence[Mapping[str, Any]], page: str) -> dict[Path, str]:
    """Text of each page and chart, by its path."""
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    files = {PAGE: f"{before}{BEGIN}\n{summary(documents)}\n{END}{after}", TABLES: tables(documents)}
    for folder, document in ((CHARTS, chosen(documents)), *((TABLES.parent, document) for document in documents)):
        if aimed(document):
            for name, colours in (("light", LIGHT), ("dark", DARK)):
                files[folder / f"{document['benchmark']}-{name}.svg"] = chart(document, colours)
    return files


def outdated(files: Iterable[Path]) -> set[Path]:
    """Charts of benchmarks that have no results any more."""
    return {*CHARTS.glob("*.svg"), *TABLES.parent.glob("*.svg")} - set(files)


def write(documents: Sequence[Mapping[str, Any]]) -> None:
    """Write pages and charts; remove charts of benchmarks that have no results any more."""
    files = made(documents, PAGE.read_text())
    CHARTS.mkdir(exist_ok=True)
    for old in outdated(files):
        old.unlink()
    for file, text in files.items():
        file.write_text(text)


def differing(documents: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Pages and charts that differ from what the JSON files say."""
    files = made(documents, PAGE.read_text())
    return sorted(
        outdated(files) | {file for file, text in files.items() if not file.exists() or file.read_text() != text}
    )


def read(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The JSON files of a folder, in the order of the page."""
    known = list(TITLES)
    files = sorted(folder.glob("*.json"), key=lambda file: known.index(file.stem) if file.stem in known else 99)
    return [json.loads(file.read_text()) for file in files]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        wrong = differing(read())
        print("\n".join(f"{file} is not what benchmarks/results says: run python benchmarks/page.py" for file in wrong))
        sys.exit(1 if wrong else 0)
    write(read())
