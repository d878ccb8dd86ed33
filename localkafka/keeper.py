"""Keeper: a small process that runs one child, and ends it when the parent that requested it is gone.

    parent  <-- socket -->  keeper  -- PDEATHSIG -->  child

Run by path, single-threaded: PR_SET_PDEATHSIG follows the *thread* that spawned, so a child started from a worker
thread would end with that thread.  The keeper learns from the end of file on the socket that the parent is gone, also
after kill -9.  The child inherits the keeper's standard input and output; the keeper closes its own copies.

    parent to keeper:  "signal N\\n"
    keeper to parent:  "pid N\\n" once, "exit N\\n" at the end (N below 0: ended by that signal)

Usage: keeper.py SOCKET_FD PROGRAM ARGUMENT...
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1
LEFT_TO_THE_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the parent decides, and sends them by the socket


def start(argv: list[str]) -> int:
    """Fork and run argv; the kernel kills the child when this process ends.

    Returns when the program runs: before its exec the child would ignore the signals that the keeper ignores."""
    keeper = os.getpid()
    running, starting = os.pipe()  # both ends close on exec
    pid = os.fork()
    if pid:
        os.close(starting)
        os.read(running, 1)
        os.close(running)
        return pid
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # the keeper ended before the line above took effect
            os._exit(1)
        for inherited in (signal.SIGPIPE, *LEFT_TO_THE_PARENT):  # ignored signals stay ignored after exec
            signal.signal(inherited, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


def let_go() -> None:
    """Close the standard streams here, so that their reader sees the end of file when the child ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def keep(pid: int, control: socket.socket, ended: int) -> None:
    """Pass signals to the child until it ends or the parent is gone."""
    control.sendall(f"pid {pid}\n".encode())
    pending = b""
    while True:
        ready, _, _ = select.select([control.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 512)
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                control.sendall(f"exit {os.waitstatus_to_exitcode(status)}\n".encode())
                return
        if control.fileno() in ready:
            received = control.recv(512)
            if not received:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            *commands, pending = (pending + received).split(b"\n")
            for command in commands:
                os.kill(pid, int(command.removeprefix(b"signal ")))  # not reaped yet, so the pid is still valid


def main() -> None:
    for ignored in LEFT_TO_THE_PARENT:
        signal.signal(ignored, signal.SIG_IGN)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    pid = start(sys.argv[2:])
    let_go()
    try:
        keep(pid, control, ended)
    except (BrokenPipeError, ConnectionResetError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
