"""Mode nodes: each member of ours publishes in ZooKeeper where it keeps its offsets.

    /consumers/GROUP/modes/MEMBER   ephemeral; its text: zkconsumer.offsets.modes

JVM members have no mode nodes and read none.  The folder is persistent, like /consumers/GROUP/ids.
"""

from __future__ import annotations

from kafkawire.znodes import group as znodes
from zkconsumer.offsets.modes import MemberMode, ModeUnreadable, mode_path, mode_text, modes_path, read_mode
from zkconsumer.session.zkcalls import WriteOutcome
from zkconsumer.session.zksession import ZkSession


def read_modes(session: ZkSession, group: str) -> dict[str, MemberMode | ModeUnreadable]:
    """Return the published modes of a group, by consumer id.  Raises ZooKeeperAway."""
    names = session.children(modes_path(group)) or ()
    paths = {mode_path(group, name): name for name in sorted(names)}
    found: dict[str, MemberMode | ModeUnreadable] = {}
    for path, node in session.read(paths).items():
        if node is None:
            continue  # it left after it was listed
        try:
            found[paths[path]] = read_mode(node.data, path)
        except ModeUnreadable as why:
            found[paths[path]] = why
    return found


class ModeNode:
    """Mode node of one member, in its current session.  All methods raise ZooKeeperAway and ConsumerError."""

    def __init__(self, session: ZkSession, group: str, consumer_id: str) -> None:
        self._session = session
        self._group = group
        self._consumer_id = consumer_id
        self._path = mode_path(group, consumer_id)
        self._ours: tuple[int | None, int, bytes] | None = None  # session, version and data of our last write

    def put(self, member: MemberMode) -> bool:
        """Publish this mode.  Return False if a node of another session exists (our former session, until that one
        ends)."""
        data = mode_text(member).encode()
        session_id = self._session.session_id
        if self._ours is not None and self._ours[0] == session_id:
            _, version, before = self._ours
            if data == before:
                return True
            written = self._session.write({self._path: (data, version)}, session_id)[self._path]
            if not isinstance(written, WriteOutcome):
                self._ours = (session_id, written, data)
                return True
        self._ours = None
        return self._make(data, session_id)

    def _make(self, data: bytes, session_id: int | None) -> bool:
        made = self._session.create({self._path: data}, ephemeral=True, session_id=session_id)[self._path]
        if made is WriteOutcome.DONE:
            self._ours = (session_id, 0, data)
            return True
        node = self._session.read([self._path], session_id=session_id)[self._path]
        if node is None or node.owner != session_id:
            return False
        written = self._session.write({self._path: (data, node.version)}, session_id)[self._path]
        if isinstance(written, WriteOutcome):
            return False
        self._ours = (session_id, written, data)
        return True

    def others(self) -> tuple[dict[str, MemberMode], list[str]]:
        """Return the modes of the other members, and a sentence for each node that cannot be read.

        A node whose member is not registered counts, too: it is about to register, or was registered a moment ago.
        """
        shown = read_modes(self._session, self._group)
        shown.pop(self._consumer_id, None)
        found = {name: said for name, said in shown.items() if isinstance(said, MemberMode)}
        return found, [str(said) for said in shown.values() if isinstance(said, ModeUnreadable)]

    def without_mode(self) -> list[str]:
        """Return registered members that publish no mode, sorted: members of the JVM."""
        shown = read_modes(self._session, self._group)
        names = self._session.children(znodes.ids(self._group)) or ()
        return sorted(name for name in names if name not in shown and name != self._consumer_id)
