"""`spark.read.format("kafka08")` and its stream and writers: what Spark is handed, and nothing more.

Spark unpickles this in a process of its own for each question it has; so nothing is kept here but the options, and what
opens a connection is made where it is used.  Import-light: Spark imports it at the first look-up of any format.
It stands above source and sink, which do not know each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from sparkpipeline.errors import coded
from sparkpipeline.source.options import PLAN, SECRET, checked_options, without_passwords
from sparkpipeline.source.schema import columns_by_default, struct_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sparkpipeline.source.readers import Kafka08Reader, Kafka08StreamReader, PlannedReader


class Kafka08DataSource(DataSource):
    """Topics of Kafka 0.7 to 0.10 (and later, as far as they answer such clients)."""

    _has_reader = False

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles it to ask it for a reader, and once it has one into each task: without passwords and the plan
        of all tasks then."""
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
        """The columns of a query that names none.  Raises OptionRefused: so a wrong option fails at load()."""
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
