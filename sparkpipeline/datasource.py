"""`spark.read.format("kafka08")` and its stream and writers: the entry point for Spark.

Spark unpickles this in a separate process for each call, so only the options are kept here, and connections are opened
where they are used.  Imports are light, because Spark imports it at the first lookup of any format.  It is above source
and sink, which do not import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkpipeline.errors import coded
from sparkpipeline.source.schema import columns_by_default, struct_type
from sparkpipeline.source.sourceoptions import PLAN, SECRET, checked_options, without_passwords

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sparkpipeline.source.readers import Kafka08Reader, Kafka08StreamReader, PlannedReader


class Kafka08DataSource(DataSource):
    """Topics of Kafka 0.7 to 0.10 (and later, as far as they answer such clients)."""

    _has_reader = False

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: Spark pickles it to request a reader, then for each task, without passwords
        and the plan of all tasks."""
        state = dict(self.__dict__)
        if self._has_reader:
            known = without_passwords(self.options)
            told = {name: known[name] for name in known if name.lower() not in (PLAN, SECRET)}
            state["options"] = type(self.options)(told)
        return state

    @classmethod
    def name(cls) -> str:
        return "kafka08"

    @coded
    def schema(self) -> StructType:
        """Return the columns of a query that names none.  Raises OptionRefused, so that a wrong option fails at
        load()."""
        known = checked_options(self.options, streaming=None)
        return struct_type(columns_by_default(known.include_headers, known.by_broker))

    @coded
    def reader(self, schema: StructType) -> Kafka08Reader | PlannedReader:
        from sparkpipeline.source.exactplan import ExactPlan
        from sparkpipeline.source.readers import Kafka08Reader, PlannedReader

        plan = ExactPlan.in_options(self.options)
        reader = Kafka08Reader.of(self.options, schema) if plan is None else PlannedReader(plan)
        self._has_reader = True
        return reader

    @coded
    def streamReader(self, schema: StructType) -> Kafka08StreamReader:
        from sparkpipeline.source.readers import Kafka08StreamReader

        reader = Kafka08StreamReader(self.options, schema)
        self._has_reader = True
        return reader

    @coded
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from sparkpipeline.sink.writer import Kafka08Writer

        return Kafka08Writer(self.options, schema, overwrite)

    @coded
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from sparkpipeline.sink.writer import Kafka08StreamWriter

        return Kafka08StreamWriter(self.options, schema, overwrite)
