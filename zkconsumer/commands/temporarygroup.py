"""Temporary group of one command: created at its start, and removed from ZooKeeper after it.

Only /consumers/NAME with a random name is removed, and only if no other member registered there meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from groundwork.options import OptionError
from groundwork.output import EXIT, fail
from groundwork.tasks import TaskGroup, now, sleep
from groundwork.zksecurity import ZooKeeper
from kafkawire.znodes.group import CONSUMERS, ids
from zkconsumer.commands.common import TIMEOUT_MS, at_interrupt, print_note
from zkconsumer.errors import ChrootMissing, ConsumerError, Unreachable
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession

PREFIX = "console-consumer-"  # the same name as the JVM's console consumer
INTERRUPTED_MS = 1500  # after ctrl-C: longest wait for ZooKeeper
GONE_S = 8.0  # a member that could not close its session is gone when the session expires


def temporary_name() -> str:
    """Return a random name of a group."""
    return PREFIX + secrets.token_hex(8)


@contextmanager
def removed_after(zookeeper: ZooKeeper, group: str, keep_folder: bool) -> Iterator[None]:
    """Remove the nodes of a temporary group after the block, however it ends.

    keep_folder: the folder of all groups existed before; otherwise it is removed too, unless it is in use by then.
    Ends the command with a sentence and `partly` if they could not be removed.
    """
    try:
        yield
    except (OptionError, Unreachable, ChrootMissing):
        raise  # nothing was created
    except BaseException:
        left = _remove_after(zookeeper, group, keep_folder, INTERRUPTED_MS)
        if left is not None and not isinstance(left, Unreachable):  # without ZooKeeper nothing was created either
            print_note(_left(group, left))
        raise
    left = _remove_after(zookeeper, group, keep_folder, TIMEOUT_MS)
    if left is not None:
        fail(_left(group, left), EXIT["partly"])


def _left(group: str, why: ConsumerError) -> str:
    return f"the throwaway group {group} is left in ZooKeeper, delete {CONSUMERS}/{group}: {why}"


def _remove_after(zookeeper: ZooKeeper, group: str, keep_folder: bool, connect_ms: int) -> ConsumerError | None:
    """Return None once the group is removed, or the reason.  Ctrl-C ends the process, and says what is left."""
    tasks = TaskGroup()
    session = ZkSession(
        zookeeper.connect,
        session_timeout_ms=TIMEOUT_MS,
        connection_timeout_ms=connect_ms,
        tasks=tasks,
        lease=Lease(),
        access=zookeeper.security,
    )
    with at_interrupt(f"interrupted; {_left(group, ConsumerError('it was being removed'))}"):
        try:
            session.start()
            remove(session, group)
            if not keep_folder:
                remove_folder(session)
        except ConsumerError as e:
            return e
        finally:
            tasks.stop(1.0)
            session.close()
    return None


def remove(session: ZkSession, group: str) -> None:
    """Delete /consumers/GROUP.  Raises ConsumerError if it has a member."""
    until = now() + GONE_S
    while members := session.children(ids(group)):
        if now() >= until:
            raise ConsumerError(f"{', '.join(sorted(members))} joined it")
        sleep(0.2)
    _delete(session, f"{CONSUMERS}/{group}")


def remove_folder(session: ZkSession) -> None:
    """Delete /consumers if it holds no group.  Raises ConsumerError if ZooKeeper refuses."""
    node = session.stat([CONSUMERS])[CONSUMERS]
    if node is None or session.children(CONSUMERS):
        return
    try:
        session.delete({CONSUMERS: node.version})
    except ConsumerError:
        if not session.children(CONSUMERS):
            raise  # otherwise another group was created meanwhile: the folder stays


def _delete(session: ZkSession, path: str) -> None:
    """Delete a node after its children; if a child is created meanwhile, ZooKeeper refuses, and the node stays."""
    for name in session.children(path) or ():
        _delete(session, f"{path}/{name}")
    node = session.stat([path])[path]
    if node is not None:
        session.delete({path: node.version})
