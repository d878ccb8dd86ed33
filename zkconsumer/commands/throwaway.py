"""A group for one command: made up at its start, and gone from ZooKeeper after it.

What is removed is below /consumers/NAME of a name nobody else has, and only when nobody registered there meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from groundwork.crew import Crew, now, sleep
from groundwork.options import OptionError
from groundwork.output import EXIT, fail
from kafkawire.v08.znodes import CONSUMERS, ids
from zkconsumer.commands.common import TIMEOUT_MS, at_interrupt, tell
from zkconsumer.errors import ChrootMissing, ConsumerError, Unreachable
from zkconsumer.lease import Lease
from zkconsumer.zksession import ZkSession

PREFIX = "console-consumer-"  # as the JVM's console consumer calls them
HASTE_MS = 1500  # after ctrl-C: how long ZooKeeper may take to answer
LEFT_S = 8.0  # a member that could not say goodbye is gone after its session


@contextmanager
def throwaway_group(zookeeper: str) -> Iterator[str]:
    """The name of a fresh group; its nodes are removed after the block, however that ends.

    Ends the command with a sentence and `partly` when they could not be removed.
    """
    group = PREFIX + secrets.token_hex(8)
    try:
        yield group
    except (OptionError, Unreachable, ChrootMissing):
        raise  # nothing was created
    except BaseException:
        left = _remove_after(zookeeper, group, HASTE_MS)
        if left is not None and not isinstance(left, Unreachable):  # without ZooKeeper nothing was created either
            tell(_left(group, left))
        raise
    left = _remove_after(zookeeper, group, TIMEOUT_MS)
    if left is not None:
        fail(_left(group, left), EXIT["partly"])


def _left(group: str, why: ConsumerError) -> str:
    return f"the throwaway group {group} is left in ZooKeeper, delete {CONSUMERS}/{group}: {why}"


def _remove_after(zookeeper: str, group: str, connect_ms: int) -> ConsumerError | None:
    """None: it is gone.  Ctrl-C ends the process, and says what is left."""
    crew = Crew()
    session = ZkSession(zookeeper, TIMEOUT_MS, connect_ms, crew, Lease())
    with at_interrupt(f"interrupted; {_left(group, ConsumerError('it was being removed'))}"):
        try:
            session.start()
            remove(session, group)
        except ConsumerError as e:
            return e
        finally:
            crew.stop(1.0)
            session.close()
    return None


def remove(session: ZkSession, group: str) -> None:
    """Delete /consumers/GROUP once it has no member.  Raises ConsumerError when somebody is in it."""
    until = now() + LEFT_S
    while members := session.children(ids(group)):
        if now() >= until:
            raise ConsumerError(f"{', '.join(sorted(members))} joined it")
        sleep(0.2)
    _delete(session, f"{CONSUMERS}/{group}")


def _delete(session: ZkSession, path: str) -> None:
    """Children first; what somebody creates meanwhile makes ZooKeeper refuse, and stays."""
    for name in session.children(path) or ():
        _delete(session, f"{path}/{name}")
    node = session.stat([path])[path]
    if node is not None:
        session.delete({path: node.version})
