"""Health check of the image `mirror`: ends with 0 when the mirror reports that it is alive, else with 1.

The mirror sends WATCHDOG=1 to $NOTIFY_SOCKET as it does for systemd: only while messages move, or have a reason
outside of it not to.  Docker starts this program now and then; it listens until one ping came, or WAIT_S passed.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

WAIT_S = 15.0  # the mirror pings several times in that ($WATCHDOG_USEC)


def alive(path: Path, wait_s: float) -> bool:
    """Whether a ping arrives at this socket within wait_s."""
    deadline = time.monotonic() + wait_s
    path.unlink(missing_ok=True)  # of a check that was killed
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                listener.settimeout(left_s)
                try:
                    lines = listener.recv(65536).splitlines()
                except TimeoutError:
                    break
                if b"WATCHDOG=1" in lines:
                    return True
        finally:
            path.unlink(missing_ok=True)
    return False


if __name__ == "__main__":
    if alive(Path(os.environ["NOTIFY_SOCKET"]), WAIT_S):
        print("alive")
    else:
        print(f"no sign of life within {WAIT_S:g} s: the log says why")
        sys.exit(1)
