"""What is known of one link whose broker answers no produce request.  Pure: no clock, no socket.

Such a broker handles the requests of a link in order and closes it on one that it refuses.  So the answer to any other
request on the link (the dialect's barrier) is a sign of life that covers all that was written before it.

    wrote(7); covers = ask(); answered(covers)     the 7 were handled
    wrote(7); lost()                               7: nobody knows
"""

from __future__ import annotations


class Life:
    """unproved messages were written since the last sign of life; proved: this link has given one at all.

    At most one sign is asked for at a time; as long as something is unproved, one is asked for, or wanted.
    """

    def __init__(self) -> None:
        self.unproved = 0
        self.proved = False
        self._asked = False

    @property
    def wanted(self) -> bool:
        """Whether a sign is to be asked for now."""
        return self.unproved > 0 and not self._asked

    @property
    def fresh(self) -> bool:
        """Whether this link has given no sign yet, nor been asked for one."""
        return not (self.proved or self._asked)

    def wrote(self, count: int) -> None:
        self.unproved += count

    def ask(self) -> int:
        """A sign is asked for; how many messages it will cover."""
        self._asked = True
        return self.unproved

    def answered(self, covers: int) -> None:
        self._asked = False
        self.proved = True
        self.unproved -= covers

    def lost(self) -> int:
        """The link is over, and another one begins; messages that may be lost with it."""
        unproved, self.unproved = self.unproved, 0
        self.proved = self._asked = False
        return unproved
