"""Writes the results in docs/performance.md and its charts from the JSON files of benchmarks/results.

    python benchmarks/page.py [--check]

What stands between the lines <!-- results --> and <!-- end of results --> is made from the files, and so are the charts
docs/performance/NAME-light.svg and NAME-dark.svg: a bar for each figure that has a target, as a share of the target,
which is the line in the middle.  The rest of the page is written by hand.  --check changes nothing, and ends with 1
where page or charts are not what the files say.
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
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"
WIDTH, ROW, LEFT, BARS = 860, 26, 330, 360  # of a chart, in pixels; LEFT: of the bars
MOST = 2.0  # times the target: a longer bar is cut

TITLES = {
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


# ---- tables ---------------------------------------------------------------------------------------------------------


def tables(documents: Sequence[Mapping[str, Any]]) -> str:
    """The section of results: for each benchmark its charts, figures and runs."""
    parts = []
    for document in documents:
        name = document["benchmark"]
        machine = document["machine"]
        form = "short form" if document["short"] else "full form"
        about = "".join(f", {key} {value}" for key, value in document["about"].items())
        parts.append(f"### {TITLES.get(name, name)}\n")
        parts.append(
            f"`benchmarks/{name}.py`, {form}, {document['at'][:10]}; {machine['cores']} cores ({machine['cpu']}), "
            f"Python {machine['python']}{about}\n"
        )
        if aimed(document):
            parts.append(
                f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="performance/{name}-dark.svg">\n'
                f'  <img alt="{escape(alt(document))}" src="performance/{name}-light.svg">\n</picture>\n'
            )
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
    reached = {True: "yes", False: "**no**", None: ""}[figure["reached"]]
    return (
        figure["work"],
        figure["who"],
        shown(figure) if figure["peer"] else number(figure["value"]),
        figure["what"],
        target(figure),
        reached,
    )


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
    """Each file as it is to be, by its path."""
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    files = {PAGE: f"{before}{BEGIN}\n{tables(documents)}\n{END}{after}"}
    for document in documents:
        if aimed(document):
            for name, colours in (("light", LIGHT), ("dark", DARK)):
                files[PAGE.with_suffix("") / f"{document['benchmark']}-{name}.svg"] = chart(document, colours)
    return files


def write(documents: Sequence[Mapping[str, Any]]) -> None:
    """Write page and charts; charts of benchmarks that are not there are removed."""
    files = made(documents, PAGE.read_text())
    folder = PAGE.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in set(folder.glob("*.svg")) - set(files):
        old.unlink()
    for file, text in files.items():
        file.write_text(text)


def differing(documents: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The files that are not what the JSON says."""
    files = made(documents, PAGE.read_text())
    old = set(PAGE.with_suffix("").glob("*.svg")) - set(files)
    return sorted(old | {file for file, text in files.items() if not file.exists() or file.read_text() != text})


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
