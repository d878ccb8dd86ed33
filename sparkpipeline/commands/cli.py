"""`sparkpipeline`: loads topics of old clusters into Parquet and processes them, with Spark.

    sparkpipeline load run JOB.yaml           one exactly-once load; also status, rewind, files, verify ..
    sparkpipeline run PIPELINE.yaml           a load and the stages after it; plan PIPELINE.yaml shows what would run
    sparkpipeline stages list PIPELINE.yaml   its batches, one by one; abandon gives one up
    sparkpipeline backfill ..                 topic ranges of one cluster into another
    sparkpipeline audit ..                    two clusters, or a cluster and its loaded files, compared
    sparkpipeline pyfiles OUT.zip             the archive for spark-submit --py-files
    sparkpipeline completion bash             completion for the shell

Data on stdout, everything else on stderr.  Exit codes: groundwork.output.EXIT, and 130 after ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence

from groundwork.commands import EXIT_CODES, Program
from groundwork.output import EXIT, Failure, run_command
from sparkpipeline.commands.common import jvm_lost
from sparkpipeline.errors import EXIT_OF, PipelineError, sentence_in

PROGRAM = "sparkpipeline"
SPARKS = ("pyspark", "py4j")  # packages that raise Spark's and the JVM's errors, as opposed to our bugs
EXTRA = ("pyspark", "py4j", "pyarrow")  # packages of the extra `spark`
INSTALL = "pip install 'kafka-legacy-mirror[spark]'"
COMMANDS = {  # name -> module and attribute, imported when called: pyspark takes half a second
    "load": "sparkpipeline.commands.load:load",
    "run": "sparkpipeline.commands.stages:run",
    "plan": "sparkpipeline.commands.stages:plan",
    "stages": "sparkpipeline.commands.stages:stages",
    "backfill": "sparkpipeline.commands.backfill:backfill",
    "audit": "sparkpipeline.commands.audit:audit",
    "pyfiles": "sparkpipeline.commands.pyfiles:pyfiles",
}


def failure(exc: Exception) -> Failure | None:
    """Return the failure for an exception; None for a bug of ours.

    A PipelineError has its sentence, also after passing through Spark; so have errors of Spark itself: a full disk, an
    unreachable master, a user's function that raises."""
    if isinstance(exc, PipelineError):
        return Failure(str(exc), EXIT[exc.exit])
    if isinstance(exc, ModuleNotFoundError):
        missing = (exc.name or "").partition(".")[0] in EXTRA
        return (
            Failure(f"{exc.name} is not installed, and this needs it: {INSTALL}", EXIT["runtime"]) if missing else None
        )
    if (sentence := sentence_in(str(exc))) is not None:
        return Failure(sentence, EXIT[EXIT_OF[sentence.split()[0].rstrip(":")]])
    if (ended := jvm_lost(exc)) is not None:
        return Failure(ended, EXIT["runtime"])
    if type(exc).__module__.partition(".")[0] not in SPARKS:
        return None
    from sparkpipeline.stages.stageprograms import first_line

    return Failure(f"Spark failed: {first_line(exc)}", EXIT["runtime"])


cli = Program(
    PROGRAM,
    help="Load, backfill and audit topics of old Kafka clusters with Spark.",
    later=COMMANDS,
    failure=failure,
    exit_codes=EXIT_CODES,
    examples=[
        "sparkpipeline load run load.yaml",
        "sparkpipeline run pipeline.yaml",
        "sparkpipeline audit --source-zookeeper old:2181 --files /warehouse/orders",
    ],
)


def outcome(args: Sequence[str]) -> int:
    """Run a command line, and return its exit code."""
    return run_command(cli, args, PROGRAM)
