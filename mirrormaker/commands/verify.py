"""`mirrormaker verify`: compares both clusters and prints what differs.  Writes nothing to any of them."""

from __future__ import annotations

import dataclasses
import json

import click

from groundwork.output import Progress, write
from groundwork.sentences import counted
from kafkawire.cluster.metadata import Unreachable
from kafkawire.errors import BrokerError, LocalError, WireError
from mirrormaker import exits
from mirrormaker.commands.online import target_view
from mirrormaker.commands.verifyflags import VerifyFlags
from mirrormaker.config import Configuration
from mirrormaker.probe import NoBrokers, OtherCluster, WrongVersion
from mirrormaker.verify.result import COLUMNS, DIFFERENCE_COLUMNS, VerifyResult
from mirrormaker.verify.verifier import NothingToCompare, Request, refuse_changed, verify
from zkconsumer.errors import ChrootMissing, ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable


def run_verify(configuration: Configuration, asked: VerifyFlags) -> int:
    """Compare, print; the exit code."""
    request = Request(
        topics=asked.only_topics, since_ms=asked.since, deep=asked.deep, wait_s=asked.wait, first=asked.first
    )
    try:
        refuse_changed(configuration)
        with Progress("comparing") as progress:
            found = verify(configuration, lambda: target_view(configuration.target), request, progress)
    except (ChrootMissing, NoBrokers, OtherCluster, WrongVersion, NothingToCompare, LocalError) as exc:
        click.echo(f"error: {exc}", err=True)
        return exits.CONFIGURATION
    except (Unreachable, ZooKeeperUnreachable, ConsumerError, WireError) as exc:
        click.echo(f"error: {exc}", err=True)
        lasting = isinstance(exc, BrokerError) and not exc.passes
        return exits.CONFIGURATION if lasting else exits.UNREACHABLE
    sound = found.sound(duplicates=not asked.no_duplicates, foreign=not asked.no_foreign)
    if asked.output == "json":
        click.echo(json.dumps(found.document(sound), indent=2))
    else:
        _table(found)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    if sound:
        _warn(found)
    click.echo(found.sentence(), err=True)
    for sentence in found.unreachable:
        click.echo(f"error: {sentence}", err=True)
    if not sound:
        return exits.DIFFERENCE
    return exits.UNREACHABLE if found.unreachable else exits.CLEAN


def _table(found: VerifyResult) -> None:
    write([scope.row() for scope in found.scopes], COLUMNS)
    if found.differences:
        click.echo()
        write([dataclasses.asdict(each) for each in found.differences], DIFFERENCE_COLUMNS)
    for scope in found.scopes:
        for note in scope.notes:
            click.echo(f"note: {scope.topic}/{scope.partition}: {note}", err=True)


def _warn(found: VerifyResult) -> None:
    if deleted := found.total("deleted_at_target"):
        what = f"{counted(deleted, 'message')} of the sources deleted by retention at the target"
        click.echo(f"warning: {what}: raise retention.ms of these topics there, and send them again", err=True)
    if duplicated := found.total("duplicated"):
        are = f"{counted(duplicated, 'message')} {'is' if duplicated == 1 else 'are'}"
        click.echo(f"warning: {are} at the target more often than at the source", err=True)
    if foreign := found.total("only_in_target"):
        are = f"{counted(foreign, 'message')} {'is' if foreign == 1 else 'are'}"
        click.echo(f"warning: {are} only at the target: it has another writer", err=True)
