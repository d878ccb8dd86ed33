"""Options of the connections to brokers as Spark's kafka format has them: kafka.security.protocol, .ssl.*, .sasl.*.

They are those of kafkawire.securityoptions with "kafka." in front; the load job takes them without.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from groundwork.options import Secret
from kafkawire.securityoptions import NEWER, SecurityOptions, broker_security_problems

PREFIX = "kafka."
_KEY = re.compile(r"'((?:security|ssl|sasl)[.'])")


def _prefixed(name: str) -> Any:
    """The field of SecurityOptions under its name here."""
    (field,) = (field for field in dataclasses.fields(SecurityOptions) if field.name == name)
    spec = dataclasses.replace(
        field.metadata["option"], key=f"{PREFIX}{field.metadata['option'].key}", behind="kafka.client.id"
    )
    return dataclasses.field(default=field.default, kw_only=True, metadata={"option": spec})


@dataclass(frozen=True, slots=True)
class KafkaSecurityOptions(SecurityOptions):
    """Options of a cluster's security in a query."""

    ANY_CASE: ClassVar[bool] = True

    security_protocol: str = _prefixed("security_protocol")
    ssl_ca: str | None = _prefixed("ssl_ca")
    ssl_certificate: str | None = _prefixed("ssl_certificate")
    ssl_key: str | None = _prefixed("ssl_key")
    ssl_key_password: Secret | None = _prefixed("ssl_key_password")  # noqa: RUF009  # a Secret never changes
    ssl_host_check: str = _prefixed("ssl_host_check")
    ssl_min_version: str = _prefixed("ssl_min_version")
    sasl_mechanism: str | None = _prefixed("sasl_mechanism")
    sasl_username: str | None = _prefixed("sasl_username")
    sasl_password: Secret | None = _prefixed("sasl_password")  # noqa: RUF009
    sasl_callback: str | None = _prefixed("sasl_callback")
    sasl_callback_config: Secret | None = _prefixed("sasl_callback_config")  # noqa: RUF009
    sasl_hosts: tuple[str, ...] = _prefixed("sasl_hosts")

    def broker_problems(self) -> Iterator[str]:
        """Conflicts between these options, files that cannot be used: sentences with the names of here."""
        for sentence in broker_security_problems(self):
            yield _KEY.sub(rf"'{PREFIX}\1", sentence)


REFUSED = {  # names of the JVM's client, and what is to be given here
    f"{PREFIX}{name}": f"give {PREFIX}{helps}" if not helps.startswith("nothing") else helps.partition(": ")[2]
    for name, helps in NEWER.items()
}
SECRETS = tuple(
    field.metadata["option"].key
    for field in dataclasses.fields(KafkaSecurityOptions)
    if field.metadata["option"].secret and field.metadata["option"].key.startswith(PREFIX)
)
