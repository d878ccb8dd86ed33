"""`mirrormaker verify`: compares both clusters and prints what differs.  Writes nothing to any of them."""

from __future__ import annotations

import dataclasses
import json
import time

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
from mirrormaker.verify.metricsfile import write_metrics
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
