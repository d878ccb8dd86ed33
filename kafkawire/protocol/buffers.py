"""Memory for large sets, taken again once no view looks at it any more.

Memory that a process returns and allocates again comes page by page, zeroed: that costs as much as receiving into it,
and on a virtual machine several times that.
"""

from __future__ import annotations

import threading

LEAST_BYTES = 128 << 10  # smaller ones the allocator keeps at hand
KEEP_BYTES = 64 << 20
HEAP_BYTES = 2 << 20  # what readers make of a piece of a set, twice
_MOST = 64  # buffers: looking through them must cost less than it saves
_STEP = 64 << 10


def let_heap_stand() -> None:
    """Have the allocator keep HEAP_BYTES of what was freed at the end of its heap, for what is read next.

    glibc returns what is more than twice the largest block that was ever mapped by itself and freed, and maps blocks
    from 128 KB on: so the values of each piece of a set would come in fresh memory.
    """
    bytes(HEAP_BYTES // 2)  # mapped, touched by nobody, freed


class Buffers:
    """At most keep_bytes of them, those in use included; what is asked for beyond that is not kept.

    In use is what any memoryview looks at, however it was derived from the one that was given out; it need not be
    released.  From any thread.
    """

    def __init__(self, keep_bytes: int = KEEP_BYTES) -> None:
        self.keep_bytes = keep_bytes
        self._kept: list[bytearray] = []  # least recently given out first
        self._lock = threading.Lock()
        let_heap_stand()

    def take(self, size: int) -> memoryview:
        """size bytes of no particular content."""
        if not LEAST_BYTES <= size <= self.keep_bytes:
            return memoryview(bytearray(size))
        with self._lock:
            for n, kept in enumerate(self._kept):
                if size <= len(kept) <= 2 * size and _is_free(kept):
                    self._kept.append(self._kept.pop(n))
                    return memoryview(kept)[:size]
            made = bytearray(-size % _STEP + size)
            self._keep(made)
            return memoryview(made)[:size]

    def _keep(self, made: bytearray) -> None:
        """Unless too many are in use.  Free ones, too small or too large for what is asked for now, make room."""
        total = sum(map(len, self._kept)) + len(made)
        for kept in list(self._kept):
            if total <= self.keep_bytes and len(self._kept) < _MOST:
                break
            if _is_free(kept):
                self._kept = [other for other in self._kept if other is not kept]
                total -= len(kept)
        if total <= self.keep_bytes and len(self._kept) < _MOST:
            self._kept.append(made)

    def __repr__(self) -> str:
        return f"<Buffers {[len(kept) for kept in self._kept]}>"


NONE_KEPT = Buffers(0)  # where nobody shares any: every buffer is a fresh one


def _is_free(kept: bytearray) -> bool:
    """A bytearray that is looked at cannot change its length."""
    try:
        kept.pop()
    except BufferError:
        return False
    kept.append(0)
    return True
