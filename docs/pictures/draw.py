"""Draws NAME.txt of this folder as NAME-light.svg and NAME-dark.svg: `python docs/pictures/draw.py`, then look at them.

title TEXT                                             for readers who do not see it; lines are joined
box NAME COLUMN FIRST-LAST KIND | title | line ..      rows FIRST to LAST of a column; KIND is cluster or program
arrow FROM -> TO | text                                straight, at the height of the box with fewer rows
across FROM -> TO | text                               below all rows, from column to column, in dashes
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
BOX = re.compile(r"box (\w+)\s+(\d)\s+(\d)-(\d)\s+(cluster|program)\s+\| (.+)")
ARROW = re.compile(r"(arrow|across) (\w+) -> (\w+)\s+\| (.+)")
LEFTS, WIDTHS = (0, 270, 660), (180, 290, 220)  # of the columns, in pixels
ROW, GAP, MARGIN, LINE = 64, 18, 10, 17
CHARACTER = 7.0  # width of one in 13 pixels, on average at most


class Colours(NamedTuple):
    text: str
    quiet: str
    cluster: str
    program: str
    edge: str


THEMES = {
    "light": Colours("#1f2328", "#59636e", "#f6f8fa", "#ddf0ff", "#2f81b7"),
    "dark": Colours("#e6edf3", "#9198a1", "#212830", "#12324d", "#58a6d6"),
}


@dataclass(frozen=True, slots=True)
class Box:
    column: int
    first: int
    last: int
    kind: str
    lines: list[str]

    @property
    def left(self) -> int:
        return MARGIN + LEFTS[self.column]

    @property
    def right(self) -> int:
        return self.left + WIDTHS[self.column]

    @property
    def top(self) -> int:
        return MARGIN + self.first * (ROW + GAP)

    @property
    def bottom(self) -> int:
        return MARGIN + self.last * (ROW + GAP) + ROW

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    boxes: dict[str, Box]
    arrows: list[tuple[str, Box, Box, str]]  # kind, from, to, text


def read(text: str) -> Picture:
    """Raises ValueError for a line that is none of the four, for a text that is wider than its box, or a box that is
    not there."""
    title, boxes, arrows = [], dict[str, Box](), []
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        if found := BOX.fullmatch(line):
            name, column, first, last, kind, lines = found.groups()
            boxes[name] = Box(int(column), int(first), int(last), kind, lines.split(" | "))
            wide = [each for each in boxes[name].lines if len(each) * CHARACTER > WIDTHS[int(column)]]
            if wide:
                raise ValueError(f"box {name} is too narrow for {wide[0]!r}")
        elif found := ARROW.fullmatch(line):
            kind, start, end, label = found.groups()
            if missing := [name for name in (start, end) if name not in boxes]:
                raise ValueError(f"{line!r}: there is no box {missing[0]} above it")
            arrows.append((kind, boxes[start], boxes[end], label))
        elif line.startswith("title "):
            title.append(line.removeprefix("title "))
        else:
            raise ValueError(f"{line!r} is no title, box, arrow or across")
    return Picture(" ".join(title), boxes, arrows)


def draw(picture: Picture, colours: Colours) -> str:
    """The picture as SVG."""
    across = 44 if any(kind == "across" for kind, *_ in picture.arrows) else 0
    width = MARGIN * 2 + LEFTS[-1] + WIDTHS[-1]
    height = max(box.bottom for box in picture.boxes.values()) + across + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{escape(picture.title)}</title>",
        f'<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colours.edge}"/></marker>',
    ]
    for box in picture.boxes.values():
        fill = colours.program if box.kind == "program" else colours.cluster
        parts.append(
            f'<rect x="{box.left}" y="{box.top}" width="{box.right - box.left}" height="{box.bottom - box.top}" rx="8" '
            f'fill="{fill}" stroke="{colours.edge}"/>'
        )
        first = box.middle - (len(box.lines) - 1) * LINE / 2 + 4
        for number, line in enumerate(box.lines):
            style = f'fill="{colours.quiet}"' if number else f'fill="{colours.text}" font-weight="600" font-size="15"'
            x, y = (box.left + box.right) / 2, first + number * LINE - (0 if number else 2)
            parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="middle" {style}>{escape(line)}</text>')
    for kind, start, end, label in picture.arrows:
        if kind == "arrow":
            y = min((start, end), key=lambda box: box.last - box.first).middle
            path, dashes = f"M{start.right + 4} {y:g}H{end.left - 4}", ""
            x, below = (start.right + end.left) / 2, y - 8
        else:
            y, dashes = max(box.bottom for box in picture.boxes.values()) + 26, ' stroke-dasharray="5 4"'
            path = f"M{start.left} {y}H{end.right}"
            x, below = (start.left + end.right) / 2, y - 8
        parts.append(
            f'<path d="{path}" fill="none" stroke="{colours.edge}" stroke-width="1.6" marker-end="url(#head)"{dashes}/>'
            f'<text x="{x:g}" y="{below:g}" text-anchor="middle" fill="{colours.text}">{escape(label)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def pictures(folder: Path = HERE) -> dict[Path, str]:
    """Path and content of each SVG that the descriptions of this folder make."""
    found = {}
    for description in sorted(folder.glob("*.txt")):
        picture = read(description.read_text(encoding="utf-8"))
        for theme, colours in THEMES.items():
            found[description.with_name(f"{description.stem}-{theme}.svg")] = draw(picture, colours)
    return found


def main() -> None:
    try:
        made = pictures()
    except ValueError as error:
        sys.exit(f"draw: {error}")
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
