"""PySpark's daemon of Python workers, for Spark in this process's own JVM: `spark.python.daemon.module`.

At its end Spark closes the connections of idle workers.  A worker that notices tries to tell the JVM about it, on that
very connection, and PySpark's daemon prints the traceback of the broken pipe: after every other run that succeeded.  A
worker abandoned by its JVM just ends.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_run = daemon.worker
OVER = 1  # not 0: the worker is not used again


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one task after the other on this connection, and return the code of the last one."""
    try:
        return int(_run(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return OVER


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
