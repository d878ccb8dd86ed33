"""Files of the JVM's MirrorMaker, 0.7 to 2.x, as options of a mirror.  Pure: decides what a file's keys mean here.

A consumer.properties may belong to the consumer of 0.7, to the ZooKeeper consumer of 0.8 to 1.1, or to the newer one on
Kafka's coordinator (0.9 and later); a producer.properties to that of 0.7, to 0.8's producer, or to the newer one.  Each
key is handled in one of three ways:

    taken     it is an option here, under its own name or another (CONSUMER_NAMES, PRODUCER_NAMES)
    ignored   it changes nothing in the copied messages; one line per file gives the reasons
    refused   it would change the copied messages, or is not supported; the sentence says what helps

Any other key is unknown: an error that names the nearest key (`--unknown-options warn` makes it a warning).  YAML files
only accept our own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from groundwork.decimals import decimal_int
from groundwork.options import Options, specs
from kafkawire.net.security import PROTOCOLS
from mirrormaker.options import SourceOptions, TargetOptions
from producer.config import ProducerConfig, by_id
from zkconsumer.options.config import QUEUED_MAX_BYTES, ConsumerConfig

RELEASE_07 = "0.7.2"  # the release that a file of 0.7 is read as
NOWHERE = "localhost:1"  # placeholder for an address that already has a problem, so that it causes no other
SMALLEST_BATCH = 1024  # batch.bytes

# ---- taken ------------------------------------------------------------------------------------------------------

CONSUMER_NAMES: Final = {  # the JVM's name, and the option here
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
}
PRODUCER_NAMES: Final = {
    "acks": "request.required.acks",
    "batch.size": "batch.bytes",  # in 0.7's files: batch.num.messages
    "bootstrap.servers": "metadata.broker.list",
    "compression.type": "compression.codec",
    "linger.ms": "queue.buffering.max.ms",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "max.request.size": "target.message.max.bytes",
    "message.max.bytes": "target.message.max.bytes",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "timeout.ms": "request.timeout.ms",
}
NEWER_PRODUCER: Final = PRODUCER_NAMES.keys() - {"batch.size", "message.max.bytes"}  # keys that 0.8's does not have
OWN: Final = {"batch.bytes", "max.in.flight", "target.message.max.bytes", "request.timeout.ms"}  # depend on others
SECURITY_TAKEN: Final = {  # in both files
    "sasl.jaas.config": "`sasl.username` and `sasl.password` of PlainLoginModule and ScramLoginModule; others are "
    "refused (Kerberos is not spoken)",
    "ssl.keystore.location": "`ssl.certificate.location` where `ssl.keystore.type` is PEM; stores of Java are refused",
    "ssl.truststore.location": "`ssl.ca.location` where `ssl.truststore.type` is PEM; stores of Java are refused",
}

# ---- ignored ----------------------------------------------------------------------------------------------------

_COMMITS = "a mirror commits what is acknowledged, every offset.commit.interval.ms"
_BYTES = "keys and values travel as the bytes they are, as in the JVM's mirror"
_JMX = "metrics are served by http.listen"
_CONNECTIONS = "connections are kept and made again as they are needed"
_MEMORY = "memory is bounded by queued.max.bytes of the source"
_FETCHED = "what cannot be sent yet is not fetched either"
_SENDERS = "num.producer.connections sets the connections to each target broker"
_NO_KEY = "no release of Kafka has such a key"
_OS_BUFFERS = "the operating system sizes socket buffers"
_RETRIES = "a mirror retries for ever, and commits nothing meanwhile"
_LIBRDKAFKA = "it is librdkafka's"

_BOTH_IGNORED: Final = {
    "client.dns.lookup": "each address of a name is tried",
    "client.rack": "the leaders are asked",
    "connections.max.idle.ms": _CONNECTIONS,
    "metric.reporters": _JMX,
    "reconnect.backoff.max.ms": _CONNECTIONS,
    "send.buffer.bytes": _OS_BUFFERS,
    "socket.connection.setup.timeout.max.ms": _CONNECTIONS,
    "socket.connection.setup.timeout.ms": _CONNECTIONS,
}
CONSUMER_IGNORED: Final = {
    **_BOTH_IGNORED,
    **ConsumerConfig.JVM_ONLY,
    "allow.auto.create.topics": "a consumer here creates no topic",
    "auto.commit.enabled": _NO_KEY,
    "auto.commit.enable": _COMMITS,
    "auto.commit.interval.ms": _COMMITS,
    "consumer.timeout.ms": "a mirror waits for messages for ever",
    "default.api.timeout.ms": "socket.timeout.ms bounds each request",
    "deserializer.class": _BYTES,
    "enable.auto.commit": _COMMITS,
    "fetch.max.bytes": "queued.max.bytes bounds what is fetched and not yet acknowledged",
    "group.instance.id": "each start is a new member",
    "heartbeat.interval.ms": "it follows from session.timeout.ms",
    "key.deserializer": _BYTES,
    "max.poll.interval.ms": "a slow target costs a mirror no partition",
    "max.poll.records": "sets are copied, not records",
    "reconnect.backoff.ms": _CONNECTIONS,
    "retry.backoff.ms": "refresh.leader.backoff.ms and rebalance.backoff.ms say it",
    "shallow.iterator.enable": ConsumerConfig.JVM_ONLY["shallowiterator.enable"],
    "value.deserializer": _BYTES,
}
PRODUCER_IGNORED: Final = {
    **_BOTH_IGNORED,
    **ProducerConfig.JVM_ONLY,
    "block.on.buffer.full": _FETCHED,
    "buffer.memory": _MEMORY,
    "key.serializer": _BYTES,
    "max.block.ms": _FETCHED,
    "message.timeout.ms": f"{_LIBRDKAFKA}; {_RETRIES}",
    "metadata.fetch.timeout.ms": _FETCHED,
    "metadata.max.idle.ms": "all topics that are mirrored are asked for",
    "num.producers.per.broker": _SENDERS,
    "partitioner.adaptive.partitioning.enable": "mirror.partitioning decides",
    "partitioner.availability.timeout.ms": "mirror.partitioning decides",
    "partitioner.ignore.keys": "mirror.partitioning decides",
    "queue.buffering.max.kbytes": f"{_LIBRDKAFKA}; {_MEMORY}",
    "receive.buffer.bytes": _OS_BUFFERS,
    "request.retries": _RETRIES,
    "retries": _RETRIES,
    "transaction.timeout.ms": "mirror.transaction.timeout.ms says it",
    "value.serializer": _BYTES,
}
TLS_IGNORED: Final = dict.fromkeys(
    (
        "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.engine.factory.class", "ssl.keymanager.algorithm",
        "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.password",
        "ssl.truststore.type",
    ),
    "TLS is OpenSSL's, with files in PEM; see ssl.min.version",
)  # fmt: skip
LOGIN_IGNORED: Final = dict.fromkeys(
    (
        "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    ),
    "tickets and tokens are not kept by the client here",
)  # fmt: skip
PREFIXES_IGNORED: Final = {"confluent.": "it is of Confluent's own tools", "metrics.": _JMX}
MONITORING = "io.confluent.monitoring.clients.interceptor."  # interceptors that count

# ---- refused ----------------------------------------------------------------------------------------------------

_JKS = (
    "is a store of Java's, and files here are PEM: export it (keytool -importkeystore to PKCS12, then openssl pkcs12) "
    "and give '{instead}'"
)
_CALLBACK = "names a class of the JVM: 'sasl.oauthbearer.callback', a Python callable, gets the tokens"
BOTH_REFUSED: Final = {
    "interceptor.classes": "names classes that see, and may change, each message: message.handler, a Python function, "
    "does that here; leave it out if they only count (those of Confluent's monitoring are ignored)",
    "sasl.client.callback.handler.class": _CALLBACK,
    "sasl.login.callback.handler.class": _CALLBACK,
    "sasl.login.class": _CALLBACK,
    "sasl.oauthbearer.token.endpoint.url": "is asked by 'sasl.oauthbearer.callback' here, a Python callable",
}
STORES_REFUSED: Final = {
    "ssl.keystore.location": _JKS.format(instead="ssl.certificate.location"),
    "ssl.truststore.location": _JKS.format(instead="ssl.ca.location"),
}
PRODUCER_REFUSED: Final = {
    "transactional.id": "makes transactions, which the JVM's mirror cannot: delivery.guarantee: exactly-once in a YAML "
    "file does; leave it out for what the JVM's mirror did"
}

_LOGIN_MODULE = re.compile(r"(?:[\w$]+\.)*(\w+)\s+(?:required|requisite|sufficient|optional)\b(.*)", re.DOTALL)
_PAIR = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)


@dataclass(slots=True)
class Translated:
    """Options of ours that a file sets.

    values: by key; names: other names of keys among them, with the option's own name.  ignored: reasons by key. taken:
    sentences about settings that are read as something else.  problems: sentences.  The file is not named in them.
    """

    values: dict[str, str]
    names: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def ignore(self, key: str, why: str) -> None:
        if key in self.values:
            del self.values[key]
            self.ignored[key] = why

    def ignore_all(self, reasons: Mapping[str, str]) -> None:
        for key in [key for key in self.values if key in reasons]:
            self.ignore(key, reasons[key])

    def refuse(self, key: str, why: str, shown: str = "") -> None:
        del self.values[key]
        self.problems.append(f"option '{key}'{f' ({shown})' if shown else ''} {why}")

    def rename(self, names: Mapping[str, str], known: Mapping[str, str], newer: bool) -> None:
        """Rename keys of the newer client to options; if the older client's keys are present too, only one of the two
        counts.

        known: each name of an option, with the option's own name.  newer: the newer client's key counts.
        """
        for theirs, ours in names.items():
            if theirs not in self.values:
                continue
            older = [key for key in self.values if key != theirs and known.get(key) == ours]
            if older and (not newer or OWN & set(older)):
                self.ignore(theirs, f"'{older[0]}' counts")
                continue
            for key in older:
                self.ignore(key, f"'{theirs}' counts")
            self.names[theirs] = ours


def known_names(cls: type[Options]) -> dict[str, str]:
    """Return each name that an option of a class has, with its own name."""
    return {name: spec.key for spec in specs(cls).values() for name in (spec.key, *spec.old)}


# ---- consumer.properties ----------------------------------------------------------------------------------------


def consumer_file(values: Mapping[str, str], new_consumer: bool = False) -> Translated:
    """Return the options of a source that a consumer.properties sets.  new_consumer: --new.consumer was given."""
    found = Translated({key: value.strip() for key, value in values.items()})
    _keeper(found, new_consumer)
    newer = found.values.get("coordination") == "kafka"
    if newer:
        why = "Kafka's coordinator keeps the offsets of the group"
        found.ignore_all({"offsets.storage": why, "dual.commit.enabled": why})
    if found.values.get("receive.buffer.bytes") == "-1":
        found.ignore("receive.buffer.bytes", _OS_BUFFERS)
    if found.values.get("consumer.timeout.ms") == "-1":
        del found.values["consumer.timeout.ms"]  # a mirror waits forever anyway
    found.rename(CONSUMER_NAMES, known_names(SourceOptions), newer)
    _secure(found)
    _leave_out(found, CONSUMER_IGNORED, known_names(SourceOptions), known_names(TargetOptions), "producer")
    _room_for_fetch(found)
    return found


def _keeper(found: Translated, new_consumer: bool) -> None:
    """Decide what keeps the group: ZooKeeper, or Kafka's coordinator."""
    values = found.values
    by_zookeeper = [key for key in ("zookeeper.connect", "zk.connect") if key in values]
    brokers = [key for key in ("bootstrap.servers", "metadata.broker.list") if key in values]
    if "coordination" in values or "partitions" in values:
        return
    if new_consumer and not brokers:
        found.problems.append(
            "--new.consumer reads through brokers, and 'bootstrap.servers' is not given: add it, or leave the flag out "
            "where the group is in ZooKeeper"
        )
        values |= {"coordination": "kafka", "bootstrap.servers": NOWHERE}
    elif new_consumer or (brokers and not by_zookeeper):
        values["coordination"] = "kafka"
    elif brokers == ["bootstrap.servers"]:
        found.problems.append(
            f"'{by_zookeeper[0]}' and 'bootstrap.servers' are both given: the JVM's mirrors of 0.9 and 0.10.0 take the "
            "first, those of 2.0 and later the second, with other offsets; keep 'zookeeper.connect' if the group is in "
            "ZooKeeper, or add coordination=kafka (or --new.consumer) if it is on Kafka's coordinator"
        )
        del values["bootstrap.servers"]
    elif by_zookeeper == ["zk.connect"] and "version" not in values and "kafka.version" not in values:
        values["version"] = RELEASE_07
        found.taken.append(f"'zk.connect' is a name of 0.7: version={RELEASE_07}; give 'version' if it is a later one")
    for key in brokers:
        if key == "metadata.broker.list" and by_zookeeper and not new_consumer:
            found.ignore(key, f"'{by_zookeeper[0]}' finds the brokers")


def _room_for_fetch(found: Translated) -> None:
    """Raise the default of queued.max.bytes so that it holds a larger fetch."""
    key = next(
        (key for key in found.values if found.names.get(key, key) in ("fetch.message.max.bytes", "fetch.size")), ""
    )
    wanted = decimal_int(found.values[key]) if key else None
    if wanted is not None and wanted > QUEUED_MAX_BYTES and "queued.max.bytes" not in found.values:
        found.values["queued.max.bytes"] = str(wanted)
        found.taken.append(f"queued.max.bytes={wanted}, to hold a fetch of '{key}'")


# ---- producer.properties ----------------------------------------------------------------------------------------


def producer_file(values: Mapping[str, str], new_producer: bool = False) -> Translated:
    """Return the options of the target that a producer.properties sets.  new_producer: --new.producer was given."""
    found = Translated({key: value.strip() for key, value in values.items()})
    known = known_names(TargetOptions)
    names = dict(PRODUCER_NAMES)
    seven = _target_of_07(found)
    older = [key for key in ("metadata.broker.list", "broker.list") if key in found.values]
    newer = "bootstrap.servers" in found.values and (new_producer or not older)
    if older and "bootstrap.servers" in found.values:
        _one_target(found, older[0])
    if seven or not found.values.keys() & NEWER_PRODUCER:
        del names["batch.size"]  # the key of 0.7, which counts messages
    elif (size := decimal_int(found.values.get("batch.size", ""))) is not None and size < SMALLEST_BATCH:
        found.values["batch.size"] = str(SMALLEST_BATCH)
        found.taken.append(f"batch.size={size} as {SMALLEST_BATCH}, the smallest")
    found.rename(names, known, newer)
    for key in ("acks", "request.required.acks"):
        if found.values.get(key) == "0":
            found.values[key] = "-1"
            found.taken.append(f"{key}=0 as -1: what is not acknowledged could never be committed")
    for key in ("zookeeper.connect", "zk.connect"):
        if any(address in found.values for address in ("metadata.broker.list", "broker.list", "bootstrap.servers")):
            found.ignore(key, "brokers are named; target.zookeeper.connect is for topics to be created")
    _secure(found)
    for key, why in PRODUCER_REFUSED.items():
        if key in found.values:
            found.refuse(key, why)
    _leave_out(found, PRODUCER_IGNORED, known, known_names(SourceOptions), "consumer")
    return found


def _target_of_07(found: Translated) -> bool:
    """Return True for a file of 0.7, whose brokers only ZooKeeper knows; then set the release."""
    values = found.values
    if values.keys() & {"metadata.broker.list", "bootstrap.servers"}:
        return False
    said = next((values[key] for key in ("target.version", "kafka.version") if key in values), "")
    listed = values.get("broker.list", "")
    numbered = bool(listed) and by_id(listed)
    if "zk.connect" in values and (not listed or numbered) and (not said or said.startswith("0.7")):
        values.setdefault("target.zookeeper.connect", values.pop("zk.connect"))
        values.setdefault("target.version", said or RELEASE_07)
        found.ignore("broker.list", "ZooKeeper knows the brokers of 0.7")
        if not said:
            found.taken.append(f"'zk.connect' alone is of 0.7: target.version={RELEASE_07}")
        return True
    if numbered and not said and "target.zookeeper.connect" not in values:
        found.refuse(
            "broker.list",
            "names brokers of 0.7 by id, and only ZooKeeper knows their partitions: give 'zk.connect' in its place; "
            "for a later target give 'metadata.broker.list', host:port,…",
            listed,
        )
        values |= {"target.zookeeper.connect": NOWHERE, "target.version": RELEASE_07}
        return True
    return numbered


def _one_target(found: Translated, older: str) -> None:
    """Report two lists of brokers that have no broker in common."""
    lists = [
        {entry.strip().lower().rsplit("://", 1)[-1] for entry in found.values[key].split(",") if entry.strip()}
        for key in (older, "bootstrap.servers")
    ]
    if not lists[0] & lists[1]:
        found.problems.append(
            f"'{older}' ({found.values[older]}) and 'bootstrap.servers' ({found.values['bootstrap.servers']}) have no "
            "broker in common: keep that of the target"
        )


# ---- both -------------------------------------------------------------------------------------------------------


def _secure(found: Translated) -> None:
    """Read the options of TLS and login as the JVM's clients do: ignore those that security.protocol does not use."""
    values = found.values
    for key in ("bootstrap.servers", "metadata.broker.list"):  # the JVM's clients accept PLAINTEXT://host:port
        if key in values:
            named = re.compile(rf"\b{re.escape(values.get('security.protocol', 'PLAINTEXT'))}://", re.IGNORECASE)
            values[key] = named.sub("", values[key])
    protocol = values.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXTSASL":  # the name in HDP
        protocol = values["security.protocol"] = "SASL_PLAINTEXT"
    theirs = {
        *TLS_IGNORED,
        *STORES_REFUSED,
        *SECURITY_TAKEN,
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
    if protocol not in PROTOCOLS:
        return
    if not protocol.endswith("SSL"):
        for key in [key for key in values if key in theirs and key.startswith("ssl.")]:
            found.ignore(key, f"security.protocol {protocol} has no TLS")
    else:
        for store, ours in (("truststore", "ssl.ca.location"), ("keystore", "ssl.certificate.location")):
            key = f"ssl.{store}.location"
            if key in values and values.get(f"ssl.{store}.type", "").upper() == "PEM":
                found.names[key] = ours
            elif key in values:
                found.refuse(key, STORES_REFUSED[key], values[key])
        found.ignore_all(TLS_IGNORED)
    if not protocol.startswith("SASL"):
        for key in [key for key in values if key.startswith("sasl.") and key != "sasl.hosts"]:
            found.ignore(key, f"security.protocol {protocol} has no login")
        return
    found.ignore_all(LOGIN_IGNORED)
    _login(found)
    for key, why in BOTH_REFUSED.items():
        if key in values and key.startswith("sasl."):
            found.refuse(key, why)


def _login(found: Translated) -> None:
    """Take user and password from sasl.jaas.config."""
    text = found.values.pop("sasl.jaas.config", None)
    if text is None:
        return
    module = _LOGIN_MODULE.match(text.strip())
    name = module[1] if module else ""
    if module is None or name not in ("PlainLoginModule", "ScramLoginModule"):
        spoken = {
            "Krb5LoginModule": "logs in by Kerberos, which is not spoken here: use a listener with SCRAM, PLAIN or TLS",
            "OAuthBearerLoginModule": "gets tokens by a class of the JVM: give 'sasl.oauthbearer.callback', a Python "
            "callable",
        }.get(name, "is not understood: give 'sasl.username' and 'sasl.password'")
        found.problems.append(f"option 'sasl.jaas.config' {spoken}")
        return
    pairs = {pair[1]: _jaas_text(pair[2] or pair[3] or pair[4] or "") for pair in _PAIR.finditer(module[2])}
    for key, ours in (("username", "sasl.username"), ("password", "sasl.password")):
        if key in pairs:
            found.values.setdefault(ours, pairs[key])


def _jaas_text(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)


def _leave_out(
    found: Translated,
    reasons: Mapping[str, str],
    known: Mapping[str, str],
    others: Mapping[str, str],
    other: str,
) -> None:
    """Ignore keys that have a reason, and options of the other file that this file does not have."""
    interceptors = [name for name in found.values.get("interceptor.classes", "").split(",") if name.strip()]
    if all(name.strip().startswith(MONITORING) for name in interceptors):
        found.ignore("interceptor.classes", _JMX)
    elif interceptors:
        found.refuse("interceptor.classes", BOTH_REFUSED["interceptor.classes"], ",".join(interceptors))
    found.ignore_all(reasons)
    for key in list(found.values):
        if key in known or key in found.names:
            continue
        prefix = next((prefix for prefix in PREFIXES_IGNORED if key.startswith(prefix)), None)
        if prefix is not None:
            found.ignore(key, PREFIXES_IGNORED[prefix])
        elif key in others and not key.startswith("target."):
            found.ignore(key, f"it is an option of the {other}")


def ignored_line(ignored: Mapping[str, str]) -> str:
    """Return the sentence about all ignored keys of a file: `ignored: a, b (why); c (why)`."""
    by_reason: dict[str, list[str]] = {}
    for key, why in ignored.items():
        by_reason.setdefault(why, []).append(key)
    return "ignored: " + "; ".join(f"{', '.join(keys)} ({why})" for why, keys in by_reason.items())


def taken_line(taken: Iterable[str]) -> str:
    """Return the sentence about settings of a file that are read as something else."""
    return f"taken: {'; '.join(taken)}"


def fates(
    names: Mapping[str, str], ignored: Mapping[str, str], refused: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (key, `taken`, `ignored` or `refused`, option or reason) for one file, for the page of options."""
    because = {**ignored, **TLS_IGNORED, **LOGIN_IGNORED, **{f"{key}*": why for key, why in PREFIXES_IGNORED.items()}}
    taken = {**{key: f"`{ours}`" for key, ours in names.items()}, **SECURITY_TAKEN}
    for key in sorted({*taken, *because, *BOTH_REFUSED, *refused}):
        if key in taken:
            yield key, "taken", taken[key]
        elif key in because:
            yield key, "ignored", because[key]
        else:
            yield key, "refused", f"it {refused.get(key) or BOTH_REFUSED[key]}"
