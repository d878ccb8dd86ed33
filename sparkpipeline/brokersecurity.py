"""Options of the connections to brokers as Spark's kafka format has them: kafka.security.protocol, .ssl.*, .sasl.*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groundwork.options import specs
from kafkawire.securityoptions import NEWER, SecurityOptions

PREFIX = "kafka."


@dataclass(frozen=True, slots=True)
class KafkaSecurityOptions(SecurityOptions):
    """Security options of a cluster in a query."""

    ANY_CASE: ClassVar[bool] = True
    BEFORE: ClassVar[str] = PREFIX


REFUSED = {  # names of the JVM's client, and what to give here
    f"{PREFIX}{name}": f"give {PREFIX}{helps}" if not helps.startswith("nothing") else helps.partition(": ")[2]
    for name, helps in NEWER.items()
}
SECRETS = tuple(
    spec.key for spec in specs(KafkaSecurityOptions).values() if spec.secret and spec.key.startswith(PREFIX)
)
