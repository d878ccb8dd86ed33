"""Program of a stage: a query, or a Python function.  Checked before anything runs; errors are one sentence."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from groundwork.named import NotLoaded, load_named
from sparkpipeline.errors import OptionRefused, PipelineError, StageFailed, code_in
from sparkpipeline.stages.pipelinefile import Pipeline, Stage

_RAISED = re.compile(r"[A-Za-z_][\w.]*(: |$)")  # pkg.mod.Error: why; lines of code stand further in
_CALLING = re.compile(r"An error occurred while calling \S+\.$")  # what py4j puts before Java's own words
Program = Callable[[Any, Mapping[str, Any]], Any]  # (session, {name: DataFrame}) -> DataFrame


def program_of(pipeline: Pipeline, stage: Stage, spark: Any | None) -> Program:
    """Return the function to call. spark: parses the query; None: it is parsed when it runs.

    Raises OptionRefused for an invalid query and a missing function."""
    if stage.python is None:
        return _query(pipeline.sql[stage.name], stage.name, spark)
    try:
        function = load_named("python", stage.python)
    except NotLoaded as exc:
        raise OptionRefused(str(exc), stage=stage.name) from exc
    return _function(function, stage)


def program_hash(pipeline: Pipeline, stage: Stage) -> str:
    """Return a hash for manifests, equal for batches made by the same query text (for a function: by its name)."""
    text = pipeline.sql.get(stage.name) or f"{stage.python} {json.dumps(stage.arguments, sort_keys=True, default=str)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def first_line(exc: BaseException) -> str:
    """Return the text of an exception: Spark's without the plan, a Python worker's traceback by its last line, a stack
    of Java's by its last cause."""
    said, traceback, rest = str(exc).partition("Traceback (most recent call last):")
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _CALLING.match(line)]
    lines = [line.removeprefix(": ") for line in lines] or [type(exc).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if not traceback:
        return f"{lines[0]}: {causes[-1]}" if causes and causes[-1] not in lines[0] else lines[0]
    raised = [line for line in rest.splitlines() if _RAISED.match(line)]
    return f"{lines[0].rstrip(': ')}: {raised[-1]}" if raised else lines[0]


def _query(text: str, stage: str, spark: Any | None) -> Program:
    if spark is not None:
        try:
            spark._jsparkSession.sessionState().sqlParser().parseQuery(text)
        except Exception as exc:  # py4j's or pyspark's, as the version wants it
            raise OptionRefused(f"its SQL is not a query: {first_line(exc)}", stage=stage) from None

    def run(session: Any, frames: Mapping[str, Any]) -> Any:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        try:
            return session.sql(text)
        except Exception as exc:
            raise StageFailed(f"its SQL cannot be run: {first_line(exc)}", stage=stage) from exc

    return run


def _function(function: Callable[..., Any], stage: Stage) -> Program:
    def run(session: Any, frames: Mapping[str, Any]) -> Any:
        from pyspark.sql import DataFrame

        try:
            made = function(session, dict(frames), **stage.arguments)
        except PipelineError:
            raise
        except Exception as exc:
            if code_in(str(exc)):
                raise
            said = first_line(exc)
            raise StageFailed(f"{stage.python} raised {type(exc).__name__}: {said}", stage=stage.name) from exc
        if not isinstance(made, DataFrame):
            raise StageFailed(f"{stage.python} returned {type(made).__name__}, not a DataFrame", stage=stage.name)
        return made

    return run
