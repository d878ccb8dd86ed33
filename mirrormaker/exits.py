"""Exit codes of `mirrormaker run` and `check`: those of sysexits.h.  systemd restarts only 69, 70 and 75."""

CLEAN = 0
USAGE = 64
UNAVAILABLE = 69  # a cluster is out of reach past start.timeout.ms
INTERNAL = 70  # a part of the program died
CONFIGURATION = 78
