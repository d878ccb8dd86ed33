"""`mirrormaker verify`: compares both clusters and prints what differs.  Writes nothing to any of them."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from groundwork.durable import READABLE, replace
from groundwork.output import Progress, print_note, print_text, write
from groundwork.sentences import counted
from kafkawire.cluster.metadata import Unreachable
from kafkawire.errors import BrokerError, LocalError, WireError
from mirrormaker import exits
from mirrormaker.commands.onlinetarget import target_view
from mirrormaker.commands.verifyflags import VerifyFlags
from mirrormaker.config import Configuration
from mirrormaker.probe import NoBrokers, OtherCluster, WrongVersion
from mirrormaker.statefolder import StateFolderUnwritable, must_be_writable
from mirrormaker.verify.result import COLUMNS, DIFFERENCE_COLUMNS, VerifyResult
from mirrormaker.verify.verifier import NothingToCompare, Request, refuse_changed, verify
from zkconsumer.errors import ChrootMissing, ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable


def run_verify(configuration: Configuration, asked: VerifyFlags) -> int:
    """Compare, print, and leave metrics where a file for them is given; the exit code."""
    if asked.metrics_file is None:
        return _compare(configuration, asked)[0]
    try:  # before hours of comparing
        must_be_writable("--metrics-file", asked.metrics_file.absolute().parent)
    except StateFolderUnwritable as exc:
        print_note(f"error: {exc}")
        return exits.STATE_FOLDER
    code, found = _compare(configuration, asked)
    try:
        write_metrics(asked.metrics_file, configuration.shown_name, code, found, time.time())
    except OSError as exc:
        print_note(f"error: --metrics-file {asked.metrics_file} cannot be written: {exc.strerror or exc}")
        return code or exits.STATE_FOLDER
    return code


def _compare(configuration: Configuration, asked: VerifyFlags) -> tuple[int, VerifyResult | None]:
    """Return the exit code, and the result; None without a comparison."""
    request = Request(
        topics=asked.only_topics, since_ms=asked.since, deep=asked.deep, wait_s=asked.wait, first=asked.first
    )
    try:
        refuse_changed(configuration)
        with Progress("comparing") as progress:
            found = verify(configuration, lambda: target_view(configuration.target), request, progress)
    except (ChrootMissing, NoBrokers, OtherCluster, WrongVersion, NothingToCompare, LocalError) as exc:
        print_note(f"error: {exc}")
        return exits.CONFIGURATION, None
    except (Unreachable, ZooKeeperUnreachable, ConsumerError, WireError) as exc:
        print_note(f"error: {exc}")
        lasting = isinstance(exc, BrokerError) and not exc.passes
        return exits.CONFIGURATION if lasting else exits.UNREACHABLE, None
    sound = found.sound(duplicates=not asked.no_duplicates, foreign=not asked.no_foreign)
    if asked.output == "json":
        print_text(json.dumps(found.document(sound), indent=2))
    else:
        _table(found)
    for note in found.notes:
        print_note(f"note: {note}")
    if sound:
        _warn(found)
    print_note(found.sentence())
    for sentence in found.unreachable:
        print_note(f"error: {sentence}")
    if not sound:
        return exits.DIFFERENCE, found
    return exits.UNREACHABLE if found.unreachable else exits.CLEAN, found


def _table(found: VerifyResult) -> None:
    write([scope.row() for scope in found.scopes], COLUMNS)
    if found.differences:
        print_text()
        write([dataclasses.asdict(each) for each in found.differences], DIFFERENCE_COLUMNS)
    for scope in found.scopes:
        for note in scope.notes:
            print_note(f"note: {scope.topic}/{scope.partition}: {note}")


def _warn(found: VerifyResult) -> None:
    if deleted := found.total("deleted_at_target"):
        what = f"{counted(deleted, 'message')} of the sources deleted by retention at the target"
        print_note(f"warning: {what}: raise retention.ms of these topics there, and send them again")
    if duplicated := found.total("duplicated"):
        are = f"{counted(duplicated, 'message')} {'is' if duplicated == 1 else 'are'}"
        print_note(f"warning: {are} at the target more often than at the source")
    if foreign := found.total("only_in_target"):
        are = f"{counted(foreign, 'message')} {'is' if foreign == 1 else 'are'}"
        print_note(f"warning: {are} only at the target: it has another writer")


# ---- metrics, for the textfile collector of node_exporter: the comparison has ended long before it is scraped -----

PREFIX = "mirrormaker_verify_"
COMPLETE = f"{PREFIX}complete_timestamp_seconds"
_COMPLETE = re.compile(rf"^{COMPLETE}\{{.*\}} ([0-9.]+)$", re.MULTILINE)
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def write_metrics(path: Path, name: str, code: int, found: VerifyResult | None, at_s: float) -> None:
    """Replace the file.  name: of the mirror; code: how the comparison ended; found: None: there was none.  Raises
    OSError."""
    complete_s = at_s if found is not None and not found.unreachable else _complete_s(path)
    replace(path, "".join(f"{line}\n" for line in lines(name, code, found, at_s, complete_s)), READABLE)


def _complete_s(path: Path) -> float | None:
    """Return when everything was compared before, as the file says, or None."""
    try:
        said = _COMPLETE.search(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
    return float(said[1]) if said is not None else None


def lines(name: str, code: int, found: VerifyResult | None, at_s: float, complete_s: float | None) -> Iterator[str]:
    """Yield the lines of the file.  complete_s: when everything was compared last; None: never."""
    label = f'name="{name.translate(_ESCAPED)}"'

    def gauge(what: str, help: str, values: dict[str, float]) -> Iterator[str]:
        yield f"# HELP {what} {help}"
        yield f"# TYPE {what} gauge"
        for more, value in values.items():
            yield f"{what}{{{label}{more}}} {value:.15g}"

    yield from gauge(
        f"{PREFIX}exit_code", "Exit code of the last mirrormaker verify; 4: messages are missing.", {"": code}
    )
    yield from gauge(f"{PREFIX}timestamp_seconds", "When it ended, since 1970.", {"": at_s})
    if complete_s is not None:
        yield from gauge(COMPLETE, "When one last compared all that it was to compare, since 1970.", {"": complete_s})
    if found is not None:
        counts = {f',result="{column}"': float(found.total(column)) for column in COLUMNS[2:-1]}
        yield from gauge(f"{PREFIX}messages", "Messages by the columns of mirrormaker verify.", counts)
