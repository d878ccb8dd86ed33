"""Programs that tests start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def started(argv: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """subprocess.Popen for the time of a block.  When the block fails the program is killed: Popen alone would wait for
    it, for ever where what failed is that it should have ended.
    """
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
