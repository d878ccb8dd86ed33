"""Buffers for large sets, reused once no view of them is left.

Memory that a process frees and allocates again comes in zeroed pages, which costs as much as receiving into it, and
several times as much on a virtual machine.
"""

from __future__ import annotations

import threading

LEAST_BYTES = 128 << 10  # the allocator keeps smaller ones itself
KEEP_BYTES = 64 << 20
HEAP_BYTES = 2 << 20  # twice what readers make of a piece of a set
_MOST = 64  # buffers; searching them must cost less than it saves
_STEP = 64 << 10


def let_heap_stand() -> None:
    """Make the allocator keep HEAP_BYTES of freed memory at the end of its heap for later use.

    glibc returns freed memory beyond twice the largest block that it ever mapped and freed, and maps blocks of 128 KB
    and more: so the values of each piece of a set would need fresh memory.
    """
    bytes(HEAP_BYTES // 2)  # mapped, never touched, freed


class Buffers:
    """Pool of at most keep_bytes, including buffers in use; buffers requested beyond that are not kept.

    A buffer is in use while any memoryview of it exists, however it was derived; views need not be released.  Usable
    from any thread.
    """

    def __init__(self, keep_bytes: int = KEEP_BYTES) -> None:
        self.keep_bytes = keep_bytes
        self._kept: list[bytearray] = []  # least recently used first
        self._lock = threading.Lock()
        let_heap_stand()

    def take(self, size: int) -> memoryview:
        """Return a buffer of `size` uninitialized bytes."""
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
        """Keep a buffer unless too many are in use.  Free buffers of other sizes are dropped for it."""
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


NONE_KEPT = Buffers(0)  # always allocates


def _is_free(kept: bytearray) -> bool:
    """True if no view of a bytearray exists: with one, its length could not be changed."""
    try:
        kept.pop()
    except BufferError:
        return False
    kept.append(0)
    return True
