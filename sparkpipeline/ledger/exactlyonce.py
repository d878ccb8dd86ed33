"""One batch, exactly once: recover, plan, execute, commit, publish.  A Work defines the content of the work.

    recover   publish the commit that is not done; give up the staging of attempts that cannot commit any more;
              a plan without commit is executed again, the very plan
    plan      plans/N by exclusive create: of two drivers one plans, the other has lost
    execute   below staging/N-attempt/, a folder of this attempt alone
    commit    the attempt is sealed, its files are looked at, then commits/N by exclusive create decides
    publish   superseded files go to trash, staged files get their final names, done/N is written; then staging goes

A driver that loses drops its own staging and nothing else.  Any step may be the last one of a process: POINTS names
them all, and tests end processes there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from groundwork.failpoints import failpoint
from groundwork.installed import own_version
from sparkpipeline.errors import OptionRefused, PipelineError
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import Manifest, Plan, StagedBatch

Tell = Callable[[str], None]  # takes sentences for the operator
POINTS = (  # where a process may end; each name is a fail point
    "ledger before recovery",
    "ledger before sweep",
    "ledger before plan",
    "ledger after plan",
    "ledger before execute",
    "ledger after execute",
    "ledger after seal",
    "ledger before commit",
    "ledger after commit",
    "ledger before trash",
    "ledger during publish",
    "ledger before done",
    "ledger after done",
    "ledger before outward",
    "ledger after outward",
    "ledger during snapshot",
    "ledger after snapshot",
    "files before link",
)


class Work(Protocol):
    """Work that a ledger does batch by batch."""

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        """Plan batch number `batch`; None: there is nothing to do.

        Validated: a plan is durable, so one that cannot be executed would fail at every start until it is abandoned."""
        ...

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        """Execute a plan, writing below `staging` only: a full path for Spark, of a folder that is not there yet.

        Audited when it returns; raises otherwise, and nothing is committed.  May be called again for the same plan,
        also while another driver is still at it."""
        ...

    def published(self, manifest: Manifest) -> None:
        """All files of the newest batch have their final names: copy positions outward.  What it raises is
        reported and undoes nothing.  A crash may leave a batch without this call: each call must copy all of it."""
        ...


class Outcome(StrEnum):
    """Outcome of advance()."""

    IDLE = "idle"  # nothing to do
    DONE = "done"  # a batch is committed and published
    LOST = "lost"  # another driver planned, committed, abandoned or gave up the batch


@dataclass(frozen=True, slots=True)
class Advance:
    """Result of one call of advance(). batch: its batch, None if idle; manifest: when done; attempt: 0 where none
    began; recovered: batches of before whose publishing was finished first; again: the plan was there before."""

    outcome: Outcome
    batch: int | None = None
    manifest: Manifest | None = None
    attempt: int = 0
    recovered: tuple[int, ...] = ()
    again: bool = False


def advance(ledger: Ledger, work: Work, tell: Tell, alone: bool = False) -> Advance:
    """Finish a begun batch, else plan and execute the next one: one batch per call.

    alone: the caller holds the job's lock, so other attempts are of drivers that are gone; their files are deleted (at
    worst a driver that lives loses its work; nothing else depends on it).  Raises what the work or the file system
    raises; whatever was reached before is taken up by the next call.
    """
    failpoint("ledger before recovery")
    state = ledger.state()
    recovered = tuple(_recover(ledger, work, manifest, tell) for manifest in state.unpublished)
    failpoint("ledger before sweep")
    ledger.attempts.sweep(state.next_batch, alone, tell)
    plan = state.open_plan or _planned(ledger, work, state.next_batch)
    if plan is None:
        return Advance(Outcome.IDLE, recovered=recovered)
    again = state.open_plan is not None
    if not again and not ledger.put_plan(plan):
        tell(f"batch {plan.batch}: another driver planned it first")
        return Advance(Outcome.LOST, plan.batch, recovered=recovered)
    failpoint("ledger after plan")
    return replace(_carried_out(ledger, work, plan, tell), recovered=recovered, again=again)


def _recover(ledger: Ledger, work: Work, manifest: Manifest, tell: Tell) -> int:
    tell(f"batch {manifest.batch} is committed, and its publishing is finished now")
    ledger.publish(manifest, tell)
    _outward(ledger, work, manifest, tell)
    return manifest.batch


def _planned(ledger: Ledger, work: Work, batch: int) -> Plan | None:
    plan = work.plan(ledger, batch)
    if plan is not None and plan.batch != batch:
        raise OptionRefused(f"the plan is of batch {plan.batch}", batch=batch)
    failpoint("ledger before plan")
    return plan


def _carried_out(ledger: Ledger, work: Work, plan: Plan, tell: Tell) -> Advance:
    attempt = ledger.claim(plan.batch)
    if attempt is None:
        return _lost(ledger, plan, 0, tell)
    failpoint("ledger before execute")
    manifest = _executed(ledger, work, plan, attempt, tell)
    failpoint("ledger before commit")
    if manifest is None or not ledger.commit(manifest):
        return _lost(ledger, plan, attempt, tell)
    failpoint("ledger after commit")
    ledger.publish(manifest, tell)
    failpoint("ledger before outward")
    _outward(ledger, work, manifest, tell)
    failpoint("ledger after outward")
    _tidy(ledger, tell)
    return Advance(Outcome.DONE, plan.batch, manifest, attempt)


def _executed(ledger: Ledger, work: Work, plan: Plan, attempt: int, tell: Tell) -> Manifest | None:
    """Return the manifest to commit; None: it has lost.  If this raises, nothing was committed, so the files may be
    deleted."""
    started_ms = ledger.clock()
    try:
        staged = work.execute(plan, ledger.staging(plan.batch, attempt), attempt)
        failpoint("ledger after execute")
        manifest = Manifest(
            batch=plan.batch,
            kind=plan.kind,
            plan_hash=plan.hash,
            attempt=attempt,
            application=staged.application,
            started_ms=started_ms,
            committed_ms=ledger.clock(),
            files=staged.files,
            supersedes=plan.supersedes,
            facts=staged.facts,
            version=own_version(),
        )
        return manifest if ledger.prepare(manifest) else None
    except BaseException as exc:
        _given_up(ledger, plan, attempt, tell)
        if isinstance(exc, Exception) and _decided(ledger, plan.batch):
            tell(f"batch {plan.batch}, attempt {attempt} failed after another driver had decided the batch: {exc}")
            return None
        raise


def _decided(ledger: Ledger, batch: int) -> bool:
    try:
        return ledger.decision(batch) is not None
    except PipelineError:
        return False  # unknown; the original exception is raised


def _given_up(ledger: Ledger, plan: Plan, attempt: int, tell: Tell) -> None:
    try:
        ledger.attempts.give_up(plan.batch, attempt, ours=True)
    except PipelineError as exc:  # the original exception is raised; the files wait for the next sweep
        tell(f"batch {plan.batch}, attempt {attempt}: its files are not deleted yet: {exc}")


def _lost(ledger: Ledger, plan: Plan, attempt: int, tell: Tell) -> Advance:
    """Drop our own staging, and nothing else."""
    decided = ledger.decision(plan.batch)
    if decided is None:
        how = "another driver gave our attempt up"
    elif decided.abandoned:
        how = "it was abandoned"
    else:
        how = f"another driver committed it (attempt {decided.attempt})"
    tell(f"batch {plan.batch}: {how}; files of attempt {attempt} are deleted")
    if attempt:
        if decided is None:
            ledger.attempts.give_up(plan.batch, attempt, ours=True)
        else:
            ledger.attempts.drop(plan.batch, attempt)
    return Advance(Outcome.LOST, plan.batch, attempt=attempt)


def _outward(ledger: Ledger, work: Work, manifest: Manifest, tell: Tell) -> None:
    try:
        if (
            ledger.decision(manifest.batch + 1) is None
        ):  # a driver that slept must not write old offsets over newer ones
            work.published(manifest)
    except Exception as exc:
        tell(f"batch {manifest.batch} is published, but the steps after it failed: {exc}")


def _tidy(ledger: Ledger, tell: Tell) -> None:
    """Write a snapshot and empty the trash; a failure does not affect the batch, and the next one retries."""
    try:
        ledger.compact_log()
        failpoint("ledger after snapshot")
        ledger.drop_trash()
    except PipelineError as exc:
        tell(f"the ledger could not be tidied up: {exc}")
