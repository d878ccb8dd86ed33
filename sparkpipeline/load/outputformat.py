"""Output format of a job, which never changes: readers of a folder expect one format.

The newest manifest remembers format and columns (facts.output), an open plan its format (work.output): what an attempt
before this one has staged is of it.  Ledgers of releases before there was a choice remember neither, and are Parquet.

Folders are Hive's: data/topic=T/date=YYYY-MM-DD/hour=HH/, so that spark.read finds the columns topic, date and hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.dialects import Dialect
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import Manifest
from sparkpipeline.ledger.orc import ORC
from sparkpipeline.ledger.parquet import PARQUET
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.loadplan import LOAD, REWIND
from sparkpipeline.source.schema import columns_by_default

IN_FOLDERS = ("topic",)  # columns of a message that are in the names of folders, and not in files


def check_zone(config: LoadConfig, spark: Any) -> None:
    """Raise OptionRefused if files would have timestamps that a JVM in another time zone reads differently."""
    if config.format is not ORC:
        return
    zone = spark._jvm.java.time.ZoneId.systemDefault()
    if str(zone.normalized().getId()) != "Z":
        raise OptionRefused(
            f"ORC keeps the wall clock of the JVM's time zone, {zone.getId()} here, and readers in another zone would"
            " see another moment: give --conf spark.driver.extraJavaOptions=-Duser.timezone=UTC, and the same for"
            " spark.executor.extraJavaOptions",
            option="output.format",
        )


def check_output(ledger: Ledger, config: LoadConfig) -> None:
    """Raise OptionRefused if the job's files have another format than the options."""
    state = ledger.state()
    held, what = _remembered(state.newest), "files are"
    if held is None and state.open_plan is not None and state.open_plan.kind in (LOAD, REWIND):
        held, what = str(state.open_plan.work.get("output", PARQUET.name)), "open plan is for"
    if held is None and state.newest is not None and ledger.live_files():
        held, what = PARQUET.name, "files are"  # loaded by a release that knew no other
    if held is not None and held != config.format.name:
        raise OptionRefused(
            f"the job's {what} {_options(held)}, and its options say {_options(config.format.name)}: a job keeps the"
            " format that it began with; give it back, or load into another base",
            option="output.format", base=ledger.base,
        )  # fmt: skip


def _remembered(newest: Manifest | None) -> str | None:
    output = JobState.of(newest).output
    return None if output is None else output["format"]


def _options(name: str) -> str:
    """Return a format as options."""
    return "json with json.values text" if name == "json-text" else name


def output_work(config: LoadConfig) -> dict[str, str]:
    """Return the output fields of a plan of a batch with files."""
    return {"output": config.format.name}


def output_after(before: Mapping[str, str] | None, config: LoadConfig, spoken: Dialect) -> dict[str, str]:
    """Return facts.output after a batch with files.  Columns that only earlier files have stay."""
    columns = columns_by_default(config.include_headers, spoken.partitions_by_broker)
    now = {name: f"{name} {kind}" for name, kind in columns.items() if name not in IN_FOLDERS}
    known = [] if before is None else before["columns"].split(", ")
    added = [column for column in now.values() if column not in known]
    return {"format": config.format.name, "columns": ", ".join([*known, *added])}
