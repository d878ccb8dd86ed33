"""`sparkpipeline`: topics of old clusters to Parquet and on, with Spark.

    sparkpipeline load run JOB.yaml           one exactly-once load; also status, rewind, files, verify ..
    sparkpipeline run PIPELINE.yaml           a load and the stages behind it; plan PIPELINE.yaml shows what would run
    sparkpipeline stages list PIPELINE.yaml   its batches, one by one; abandon gives one up
    sparkpipeline backfill ..                 topic ranges of one cluster into another
    sparkpipeline audit ..                    two clusters, or a cluster and its loaded files, compared
    sparkpipeline pyfiles OUT.zip             what spark-submit --py-files needs
    sparkpipeline completion bash             completion for the shell

Data on stdout, everything else on stderr.  Exit codes: groundwork.output.EXIT, and 130 after ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from groundwork.commands import EXIT_CODES, Group, completion
from groundwork.output import EXIT, Failure, print_text, run_command, version_line
from sparkpipeline.commands.common import jvm_lost
from sparkpipeline.errors import EXIT_OF, PipelineError, sentence_in

PROGRAM = "sparkpipeline"
SPARKS = ("pyspark", "py4j")  # packages whose errors are Spark's and the JVM's, not mistakes of ours
EXTRA = ("pyspark", "py4j", "pyarrow")  # packages that the extra `spark` brings
INSTALL = "pip install 'kafka-legacy-mirror[spark]'"
COMMANDS = {  # name -> module and attribute, imported when it is called for: pyspark takes half a second
    "load": "sparkpipeline.commands.load:load",
    "run": "sparkpipeline.commands.stages:run",
    "plan": "sparkpipeline.commands.stages:plan",
    "stages": "sparkpipeline.commands.stages:stages",
    "backfill": "sparkpipeline.commands.backfill:backfill",
    "audit": "sparkpipeline.commands.audit:audit",
    "pyfiles": "sparkpipeline.commands.pyfiles:pyfiles",
}


@click.group(
    cls=Group,
    later=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    exit_codes=EXIT_CODES,
    examples=[
        "sparkpipeline load run load.yaml",
        "sparkpipeline run pipeline.yaml",
        "sparkpipeline audit --source-zookeeper old:2181 --files /warehouse/orders",
    ],
)
@click.option("--version", "show_version", is_flag=True, help="Print the version.")
@click.pass_context
def cli(ctx: click.Context, show_version: bool) -> None:
    """Load, backfill and audit topics of old Kafka clusters with Spark."""
    if show_version:
        print_text(version_line(PROGRAM))
        ctx.exit(0)
    if ctx.invoked_subcommand is None:
        raise click.UsageError("a command is missing; sparkpipeline --help lists them", ctx)


cli.add_command(completion(PROGRAM))


def outcome(args: Sequence[str]) -> int:
    """Run a command line; its exit code.  A PipelineError, also one that came through Spark, is one sentence, and so is
    what Spark itself raises: a full disk, a master that is not there, a function of the user's that fails."""
    return run_command(_telling(cli), args=args, name=PROGRAM)


def _telling(command: click.Command) -> click.Command:
    """The command with our errors turned into its end."""
    invoke = command.invoke

    def telling(ctx: click.Context) -> object:
        try:
            return invoke(ctx)
        except PipelineError as exc:
            raise Failure(str(exc), EXIT[exc.exit]) from exc
        except click.ClickException:
            raise
        except ModuleNotFoundError as exc:
            if (exc.name or "").partition(".")[0] not in EXTRA:
                raise
            raise Failure(f"{exc.name} is not installed, and this needs it: {INSTALL}", EXIT["runtime"]) from exc
        except Exception as exc:
            sentence = sentence_in(str(exc))
            if sentence is not None:
                raise Failure(sentence, EXIT[EXIT_OF[sentence.split()[0].rstrip(":")]]) from exc
            if (ended := jvm_lost(exc)) is not None:
                raise Failure(ended, EXIT["runtime"]) from exc
            if type(exc).__module__.partition(".")[0] not in SPARKS:
                raise
            from sparkpipeline.stages.programs import first_line

            raise Failure(f"Spark failed: {first_line(exc)}", EXIT["runtime"]) from exc

    command.invoke = telling  # type: ignore[method-assign]
    return command
