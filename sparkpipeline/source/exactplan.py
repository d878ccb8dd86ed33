"""Query whose driver has planned everything already: ranges task by task, the cluster, and read options.

Jobs of this package read topics by such a plan (a load, an audit of loaded files).  They hand it to format("kafka08")
as a value: pickled, as Spark pickles it again for its tasks, in the one option PLAN.  Anyone who writes a query can set
an option, so only the classes of a plan are unpickled.
"""

from __future__ import annotations

import base64
import io
import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from groundwork.options import Secret
from kafkawire.model import Broker, BrokerPartition
from kafkawire.net.security import OPEN, Sasl, Security
from kafkawire.net.tls import Tls
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.source.schema import TYPES, struct_type
from sparkpipeline.source.sourceoptions import PLAN, SECRET

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExactPlan:
    """Plan of a read. tasks: ranges of Spark's tasks 0, 1, 2 .., read one after the other; read.columns: the
    columns."""

    tasks: tuple[tuple[OffsetRange, ...], ...]
    access: ClusterAccess
    read: ReadOptions

    def frame(self, spark: Any) -> Any:
        """Return the rows as a DataFrame of this session.  Raises Spark's exceptions."""
        schema = struct_type({name: TYPES[name] for name in self.read.columns})
        asked = spark.read.format("kafka08").option(PLAN, self.text())
        if self.access.security != OPEN:
            asked = asked.option(SECRET, _packed(self.access.security))
        return asked.schema(schema).load()

    def text(self) -> str:
        """Return the value of the option PLAN, without security, which is a separate option with a name that Spark
        redacts."""
        return _packed(replace(self, access=replace(self.access, security=OPEN)))

    @staticmethod
    def in_options(options: Mapping[str, str]) -> ExactPlan | None:
        """Return the plan in a query's options; None: a user's query.  Raises OptionRefused for anything but a plan
        alone."""
        text = options.get(PLAN)
        if text is None:
            return None
        if {name.lower() for name in options} - {PLAN, SECRET}:
            raise OptionRefused("goes with no other option: the plan says everything", option=PLAN)
        plan = _unpacked(text, ExactPlan, PLAN)
        secret = options.get(SECRET)
        if secret is None:
            return plan
        return replace(plan, access=replace(plan.access, security=_unpacked(secret, Security, SECRET)))


def _packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode("ascii")


def _unpacked(text: str, kind: type[T], option: str) -> T:
    """Unpickle a plan.  Raises OptionRefused."""
    try:
        value = _PlanUnpickler(io.BytesIO(zlib.decompress(base64.b64decode(text, validate=True)))).load()
    except (ValueError, zlib.error, pickle.UnpicklingError, EOFError, TypeError, AttributeError) as exc:
        raise OptionRefused(f"is not a plan of this release: {exc}", option=option) from None
    if not isinstance(value, kind):
        raise OptionRefused(f"is not a plan: {type(value).__name__}", option=option)
    return value


CLASSES = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (
        ExactPlan, OffsetRange, ClusterAccess, ReadOptions, Broker, BrokerPartition, Security, Tls, Sasl, Secret
    )
}  # fmt: skip


class _PlanUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a plan")
        return CLASSES[module, name]
