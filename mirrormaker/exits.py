"""Exit codes of `mirrormaker`: those of sysexits.h.  systemd restarts only 69, 70 and 75."""

from groundwork.output import DAEMON_EXIT, EXIT

CLEAN = DAEMON_EXIT["clean stop"]
USAGE = DAEMON_EXIT["usage"]
REFUSED = DAEMON_EXIT["data"]  # the running mirror refuses a command
UNREACHABLE = DAEMON_EXIT["unreachable"]  # a cluster is unreachable for longer than start.timeout.ms
INTERNAL = DAEMON_EXIT["internal"]  # a task of the program died
STATE_FOLDER = DAEMON_EXIT["state folder"]  # a folder or socket of this program cannot be made, read or written
TEMPORARY = DAEMON_EXIT["temporary"]  # a stop did not drain: parts are not acknowledged, or a second signal came
CONFIGURATION = DAEMON_EXIT["configuration"]
DATA = DAEMON_EXIT["data"]  # a bad message whose policy is fail
PERMISSION = DAEMON_EXIT["permission"]  # a file of the configuration may not be read
DIFFERENCE = EXIT["partly"]  # `verify`: the target lacks messages; `diff`: topics or settings differ
INTERRUPTED = 130  # ctrl-C before `run` began, or during `check`: the code that shells use for SIGINT

MEANING = {
    CLEAN: "done; of run: a clean stop",
    DIFFERENCE: "verify: the target lacks messages; diff: topics or settings differ",
    USAGE: "wrong command line",
    DATA: "run: a bad message whose policy is fail; else: the running mirror refuses",
    UNREACHABLE: "a cluster, or the running mirror, cannot be reached",
    INTERNAL: "a part of the program died",
    STATE_FOLDER: "a folder or socket of this program cannot be made, read or written",
    TEMPORARY: "a stop before everything was acknowledged; sent again after the next start",
    PERMISSION: "a file of the configuration may not be read",
    CONFIGURATION: "wrong configuration",
    INTERRUPTED: "interrupted by ctrl-C",
}
VERIFY = {
    **{code: MEANING[code] for code in (USAGE, PERMISSION, CONFIGURATION, INTERRUPTED)},
    CLEAN: "done: nothing that the mirror committed is missing; what it has not reached counts as not_yet_mirrored and "
    "is no difference",
    DIFFERENCE: "the target lacks messages that the mirror committed",
    UNREACHABLE: "a cluster is out of reach",
    STATE_FOLDER: "the file of --metrics-file cannot be written",
    TEMPORARY: "too many open files",
}
DIFF = {
    **{code: MEANING[code] for code in (USAGE, PERMISSION, INTERRUPTED)},
    CLEAN: "done: no topic or setting differs, except as configured",
    DIFFERENCE: "topics or settings differ, or topics are missing at the target",
    UNREACHABLE: "a cluster is out of reach, or does not tell something that is to be compared",
    CONFIGURATION: "wrong configuration, or a cluster is not the one that it names",
}
