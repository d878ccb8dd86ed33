"""`mirrormaker status`: what a running mirror does, as a table or as JSON, once or again and again."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Command, output_option
from groundwork.output import print_text
from groundwork.sentences import printable
from mirrormaker import exits
from mirrormaker.attention import own_reason
from mirrormaker.commands.running import reader_may_leave, socket_option, stream

Report = Mapping[str, Any]
Row = Mapping[str, Any]
EVERY_S = 2.0
# Left out one after the other where the terminal is too narrow.
COLUMNS = ("source", "topic", "partition", "owner", "committed", "end", "lag", "lag s", "rate/s", "route", "state")
LEAST_WANTED = ("route", "owner", "committed", "end", "rate/s", "lag s", "source", "partition")
RIGHT = frozenset({"partition", "committed", "end", "lag", "lag s", "rate/s"})
MIN_STATE, MAX_NAMES = 12, 6


@click.command(
    cls=Command,
    examples=[
        "mirrormaker status",
        "mirrormaker status mirror.yaml --watch",
        "mirrormaker status --socket /run/mirrormaker/orders/control.sock -o json",
    ],
)
@click.argument("file", required=False)
@socket_option
@output_option(("table", "json"))
@click.option("--watch", is_flag=True, help="Show it again and again, until ctrl-C.")
@click.option("--every", type=click.FloatRange(0.2, 20), default=EVERY_S, show_default=True, help="Seconds between.")
def status(file: str | None, *, socket_path: Path | None, output: str, watch: bool, every: float) -> int:
    """Print offsets, lag, rate and state of a running mirror.

    With owner and route of each partition, and a reason beside each state that needs one.

    FILE is the mirror's configuration file; it may be left out where one mirror runs here.
    """
    given = Path(file) if file else None
    if watch:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ctrl-C is how it ends
    try:
        with reader_may_leave():
            for report in stream(given, socket_path, "status", every_s=every if watch else None):
                _show(report, output, watch)
                if not watch:
                    break
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            print_text()
    return exits.CLEAN


def _show(report: Report, output: str, watch: bool) -> None:
    if output == "json":
        print_text(json.dumps(report, indent=None if watch else 2))
        return
    tty = sys.stdout.isatty()
    size = shutil.get_terminal_size()
    lines = list(shown(report, size.columns if tty else None))
    if watch and tty:
        cut = lines[: size.lines - 1]
        if len(lines) > len(cut):
            cut[-1] = f"… {len(lines) - len(cut) + 1:,} more lines: mirrormaker status shows all"
        print_text("\n".join(cut), clear=True)
    else:
        print_text("\n".join(lines) + ("\n" if watch else ""))


# ---- as text ---------------------------------------------------------------------------------------------------------


def shown(report: Report, columns: int | None) -> Iterable[str]:
    """Yield the lines of a report, for a terminal of that width; None does not cut them."""
    yield from (printable(line, keep="") for line in (*_summary(report), *_reasons(report)))
    if report["partitions"]:
        yield ""
        rows = table([_cells(row) for row in report["partitions"]], columns, len(report["sources"]) > 1)
        yield from (printable(line, keep="") for line in rows)


def _summary(report: Report) -> Iterable[str]:
    ready = "ready" if report["ready"] else "not ready"
    up = duration((report["at_ms"] - report["started_ms"]) / 1000)
    name = f" {report['name']}" if report["name"] else ""
    yield f"mirror{name} into {report['target']}: {ready}, up {up}, release {report['release']}"
    yield (
        f"  {report['messages_per_s']:,.0f} messages/s, {report['bytes_per_s'] / 1e6:,.1f} MB/s, "
        f"lag {_lags(report)}, in flight {report['in_flight_bytes'] / 1e6:,.1f} MB, "
        f"{report['messages']:,} messages since the start"
    )
    for source in report["sources"]:
        lag = "unknown" if source["lag"] is None else _count(source["lag"], source["lag_unit"])
        yield (
            f"source {source['name']} (Kafka {source['version']}): {source['state']}; "
            f"{source['owned']:,} partition{'' if source['owned'] == 1 else 's'}, lag {lag}"
        )
        if source["held_bytes"]:
            yield f"  memory: {_memory(source)}"
        if connections := _connections(report, source["name"]):
            yield f"  connections: {connections}"
        if groups := _groups(report, source):
            yield f"  groups: {groups}"
        if source["merged"]:
            yield f"  merged with another source: {', '.join(source['merged'])}"
    yield from _workers(report)


def _memory(source: Row) -> str:
    """Return how much is fetched and not acknowledged, and which topics wait: 52.0 of 67.1 MB; 48.0 MB wait: news
    48.0 MB"""
    said = f"{source['held_bytes'] / 1e6:,.1f} of {source['max_bytes'] / 1e6:,.1f} MB"
    rows = sorted(source["waiting_bytes"].items(), key=lambda row: -row[1])
    if not rows:
        return said
    few = ", ".join(f"{topic} {nbytes / 1e6:,.1f} MB" for topic, nbytes in rows[:MAX_NAMES])
    more = f" and {len(rows) - MAX_NAMES:,} more topics" if len(rows) > MAX_NAMES else ""
    return f"{said}; {sum(nbytes for _, nbytes in rows) / 1e6:,.1f} MB wait: {few}{more}"


def _connections(report: Report, source: str) -> str:
    """Open connections to each broker of a source and, for that source, of the target: 1 of 2 to broker 0, …"""
    said = []
    for side in ("source", "target"):
        rows = [row for row in report["connections"] if (row["source"], row["side"]) == (source, side)]
        few = [f"{row['open']} of {row['most']} to broker {row['broker']}" for row in rows[:MAX_NAMES]]
        more = f" and {len(rows) - MAX_NAMES:,} more brokers" if len(rows) > MAX_NAMES else ""
        said += [f"{side}: {', '.join(few)}{more}"] if rows else []
    return "; ".join(said)


def _groups(report: Report, source: Row) -> str:
    """Return how the groups of a source follow: 12 follow, up to 340 messages read twice; 1 left alone (GROUP: WHY)"""
    rows = [row for row in report["groups"] if row["source"] == source["name"]]
    said = []
    if follow := [row for row in rows if row["state"] == "following"]:
        repeats = sum(row["repeats"] or 0 for row in follow)
        said.append(f"{len(follow):,} follow, up to {repeats:,} messages read twice")
    for state in ("waiting", "left alone"):
        if some := [row for row in rows if row["state"] == state]:
            said.append(f"{len(some):,} {state} ({some[0]['group']}: {some[0]['reason']})")
    if source["groups_reason"]:
        said.append(f"do not follow now: {source['groups_reason']}")
    return "; ".join(said)


def _workers(report: Report) -> Iterable[str]:
    """A line for each process of a mirror that has several."""
    for one in report["workers"]:
        why = f": {one['reason']}" if one["reason"] else ""
        pid = f", process {one['pid']}" if one["pid"] is not None else ""
        used = "" if one["cpu_s"] is None else f", CPU {duration(one['cpu_s'])}"
        memory = "" if one["resident_bytes"] is None else f", {one['resident_bytes'] / 1e6:,.0f} MB"
        again = f", started again {one['restarts']:,} times" if one["restarts"] else ""
        yield (
            f"worker {one['number']}: {one['state']}{why}{pid}; {one['owned']:,} "
            f"partition{'' if one['owned'] == 1 else 's'}, {one['messages_per_s']:,.0f} messages/s{used}{memory}{again}"
        )


def _lags(report: Report) -> str:
    if any(source["lag"] is None for source in report["sources"]):
        return "unknown"
    sums: dict[str, int] = {}
    for source in report["sources"]:
        sums[source["lag_unit"]] = sums.get(source["lag_unit"], 0) + source["lag"]
    return " + ".join(_count(lag, unit) for unit, lag in sorted(sums.items(), reverse=True) if lag) or "0"


def _count(count: int, unit: str) -> str:
    if unit == "bytes":
        return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count:,} B"
    return f"{count:,}"


def _reasons(report: Report) -> Iterable[str]:
    """Yield what needs attention, and what was left out, each sentence once."""
    for one in report["attention"]:
        yield one["text"]
    for left in report["left_out"]:
        yield f"left out: {left['source']}: {left['topic']}: {left['messages']:,} messages ({left['reason']})"
    for lost in report["dropped_fields"]:
        what = f"{lost['messages']:,} messages are copied without {lost['field']} (mirror.drop.fields)"
        yield f"dropped: {lost['source']}: {lost['topic']}: {what}"
    for sent in report["handled"]:
        what = f"{sent['messages']:,} messages of message.set.handler {sent['how']}"
        yield f"handled: {sent['source']}: {sent['topic']}: {what}"
    for gap in report["gaps"]:
        yield f"gap: {gap['source']}: {gap['topic']}: {gap['missing']:,} were deleted before they were read"


def _cells(row: Row) -> dict[str, str]:
    bytes_unit = row["lag_unit"] == "bytes"
    lag_s = row["lag_s"]
    rate = f"{row['messages_per_s']:,.0f}"
    reason = own_reason(row["reason"], row["source"])
    return {
        "source": row["source"],
        "topic": row["topic"],
        "partition": str(row["partition"]),
        "owner": row["owner"],
        "committed": _or_dash(row["committed"]),
        "end": _or_dash(row["end"]),
        "lag": "-" if row["lag"] is None else f"{row['lag']:,}{' B' if bytes_unit else ''}",
        "lag s": "-" if lag_s is None else f"{'>' if row['lag_s_is_least'] else ''}{lag_s:,.0f}",
        "rate/s": rate,
        "route": row["route"],
        "state": f"{row['state']}: {reason}" if reason else row["state"],
    }


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def table(rows: Sequence[Mapping[str, str]], columns: int | None, several_sources: bool = True) -> Iterable[str]:
    """Yield aligned lines; if they are too wide, the least wanted columns are left out and the last is cut."""
    kept = [name for name in COLUMNS if several_sources or name != "source"]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in kept}
    if columns is not None:
        for name in LEAST_WANTED:
            fixed = sum(widths[each] + 2 for each in kept if each != "state")
            if fixed + min(widths["state"], MIN_STATE) <= columns:
                break
            kept = [each for each in kept if each != name]
    for row in ({name: name for name in kept}, *rows):
        cells = [row[name].rjust(widths[name]) if name in RIGHT else row[name].ljust(widths[name]) for name in kept]
        line = "  ".join(cells).rstrip()
        yield line if columns is None or len(line) <= columns else line[: columns - 1] + "…"


def duration(seconds: float) -> str:
    """3 s, 12 min, 4 h 10 min, 3 d 2 h."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"
