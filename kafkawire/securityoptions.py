"""Options for connections to brokers: security.protocol, ssl.*, sasl.*, with the names of Kafka and librdkafka.

Every class of options of a cluster inherits them (they include those of ZooKeeper):

    class ConsumerConfig(SecurityOptions): ...        # security.protocol, ssl.…, sasl.…, zookeeper.auth, …
    links = Links("me", config.kafka_security.connect(), timeout_ms)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groundwork.credentials import location, others_may_read, secret
from groundwork.hosts import host_list
from groundwork.named import NotLoaded
from groundwork.options import CLASS, Secret, option, specs
from groundwork.optionvalues import filled
from groundwork.tlscontext import TlsUnusable
from groundwork.zksecurity import ZkSecurityOptions
from kafkawire.net.sasl import MECHANISMS, OAUTHBEARER, PLAIN
from kafkawire.net.security import PLAINTEXT, PROTOCOLS, Sasl, Security, load_callback
from kafkawire.net.tls import VERSIONS, Tls

NEWER: Final[Mapping[str, str]] = {  # keys of JVM clients, for Options.NEWER
    "ssl.truststore.location": "ssl.ca.location, a file in PEM",
    "ssl.truststore.certificates": "ssl.ca.location, a file in PEM",
    "ssl.truststore.password": "nothing: ssl.ca.location is PEM",
    "ssl.truststore.type": "nothing: files are PEM",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location, files in PEM",
    "ssl.keystore.certificate.chain": "ssl.certificate.location, a file in PEM",
    "ssl.keystore.key": "ssl.key.location, a file in PEM",
    "ssl.keystore.password": "ssl.key.password",
    "ssl.keystore.type": "nothing: files are PEM",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.enabled.protocols": "ssl.min.version",
    "ssl.protocol": "ssl.min.version",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.jaas.config": "sasl.username and sasl.password (sasl.oauthbearer.callback)",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.callback, a Python callable",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.callback, a Python callable that requests the token",
    "sasl.kerberos.service.name": "nothing: GSSAPI is not supported",
}

HTTPS, NO_CHECK = "https", "none"
_BEHIND = "{before}client.id"  # on the reference page


def _host_check(raw: object) -> str:
    text = "" if raw is None else str(raw).strip().lower()
    if text not in (HTTPS, NO_CHECK, ""):
        raise ValueError("https, or none (or empty) for no check")
    return text or NO_CHECK


@dataclass(frozen=True, slots=True)
class SecurityOptions(ZkSecurityOptions):
    """Options of a cluster's security: of its brokers, and of its ZooKeeper.

    BEFORE: the beginning of the keys of the brokers' options.
    """

    security_protocol: str = option(
        "{before}security.protocol", PLAINTEXT,
        "security of the connections to brokers, that of the listener: SSL is TLS, SASL a login", choices=PROTOCOLS,
        behind=_BEHIND,
    )  # fmt: skip
    ssl_ca: str | None = option(
        "{before}ssl.ca.location", None,
        "PEM file of the authorities that brokers' certificates are signed by; the system's "
        "when empty", kind=location, behind=_BEHIND,
    )  # fmt: skip
    ssl_certificate: str | None = option(
        "{before}ssl.certificate.location", None,
        "PEM file of our certificate (and its chain), where brokers ask for one",
        kind=location, behind=_BEHIND,
    )  # fmt: skip
    ssl_key: str | None = option(
        "{before}ssl.key.location", None, "PEM file of its key; the certificate's file when empty; or credential:NAME",
        kind=location, behind=_BEHIND,
    )  # fmt: skip
    ssl_key_password: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{before}ssl.key.password", None, "password of the key, or file:PATH or credential:NAME with it; never printed",
        kind=secret, secret=True, behind=_BEHIND,
    )  # fmt: skip
    ssl_host_check: str = option(
        "{before}ssl.endpoint.identification.algorithm", HTTPS,
        "https: a broker's certificate must name the host that is connected to; none: any host of a trusted "
        "certificate will do", kind=_host_check, behind=_BEHIND,
    )  # fmt: skip
    ssl_min_version: str = option(
        "{before}ssl.min.version", "TLSv1.2", "oldest TLS that is spoken", choices=tuple(VERSIONS), behind=_BEHIND
    )
    sasl_mechanism: str | None = option(
        "{before}sasl.mechanism", None, f"how to log in: {', '.join(MECHANISMS)}", choices=MECHANISMS, behind=_BEHIND
    )
    sasl_username: str | None = option(
        "{before}sasl.username", None, "user of PLAIN and SCRAM", kind=filled, behind=_BEHIND
    )
    sasl_password: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{before}sasl.password", None, "its password, or file:PATH or credential:NAME with it; never printed",
        kind=secret, secret=True, behind=_BEHIND,
    )  # fmt: skip
    sasl_callback: str | None = option(
        "{before}sasl.oauthbearer.callback", None,
        "gets tokens of OAUTHBEARER: MODULE:NAME of a Python callable, or an entry point of kafkawire.oauthbearer; "
        "called with sasl.oauthbearer.config it returns (token, its end in seconds since 1970)", kind=CLASS,
        behind=_BEHIND,
    )  # fmt: skip
    sasl_callback_config: Secret | None = option(  # noqa: RUF009  # a Secret never changes
        "{before}sasl.oauthbearer.config", None,
        "text that the callback is given, or file:PATH or credential:NAME with it; never printed",
        kind=secret, secret=True, behind=_BEHIND,
    )  # fmt: skip

    sasl_hosts: tuple[str, ...] = option(
        "{before}sasl.hosts", (),
        "hosts of brokers that are logged in to, whatever others are registered or advertised: a "
        "list; .example.com is a whole domain; default: all", kind=host_list, behind=_BEHIND,
    )  # fmt: skip

    @property
    def kafka_security(self) -> Security:
        """Return the security of connections to the brokers."""
        return security_of_brokers(self)


def security_of_brokers(options: SecurityOptions) -> Security:
    """Return the Security that the options describe."""
    sasl = None
    if options.security_protocol.startswith("SASL") and options.sasl_mechanism is not None:
        sasl = Sasl(
            options.sasl_mechanism,
            options.sasl_username or "",
            options.sasl_password,
            options.sasl_callback,
            options.sasl_callback_config,
            options.sasl_hosts,
        )
    tls = Tls(
        ca=options.ssl_ca,
        certificate=options.ssl_certificate,
        key=options.ssl_key,
        password=options.ssl_key_password,
        host_check=options.ssl_host_check == HTTPS,
        min_version=options.ssl_min_version,
    )
    encrypts = options.security_protocol.endswith("SSL")
    return Security(protocol=options.security_protocol, tls=tls if encrypts else Tls(), sasl=sasl)


def unsafe_security(options: SecurityOptions, *, found_in_zookeeper: bool, file: Path | None = None) -> Iterator[str]:
    """Yield warnings about settings that are allowed but expose a secret, without the file's name.

    found_in_zookeeper: brokers are looked up there; file: the file of the options.
    """
    encrypts, logs_in = options.security_protocol.endswith("SSL"), options.security_protocol.startswith("SASL")
    told = logs_in and options.sasl_mechanism in (PLAIN, OAUTHBEARER)
    what = "token" if options.sasl_mechanism == OAUTHBEARER else "password"
    if told and not encrypts:
        yield (
            f"sasl.mechanism={options.sasl_mechanism} over {options.security_protocol}: the network and anyone "
            f"who registers a broker can read the {what}; use security.protocol SASL_SSL, or SCRAM"
        )
    if encrypts and options.ssl_host_check != HTTPS:
        yield (
            "ssl.endpoint.identification.algorithm=none: any certificate of a trusted authority is accepted as a "
            "broker's; name brokers as in their certificates"
        )
    if told and encrypts and found_in_zookeeper and options.ssl_ca is None and not options.sasl_hosts:
        yield (
            f"sasl.mechanism={options.sasl_mechanism}: brokers come from ZooKeeper, and anyone who registers a host "
            f"there with a certificate that the system trusts gets the {what}; give ssl.ca.location or sasl.hosts, or "
            "use SCRAM"
        )
    zookeeper = options.PREFIX
    if options.zookeeper_auth is not None and not options.zookeeper_ssl:
        yield (
            f"{zookeeper}.auth without {zookeeper}.ssl.client.enable: the network on the way to ZooKeeper can read the "
            "password"
        )
    if options.zookeeper_ssl and not options.zookeeper_ssl_verify:
        yield f"{zookeeper}.ssl.verify=false: any server is accepted as ZooKeeper"
    yield from _readable(options, file)


def _readable(options: SecurityOptions, file: Path | None) -> Iterator[str]:
    """Yield warnings about files with secrets that every user of this machine may read."""
    inline = []
    for name, spec in specs(type(options)).items():
        value = getattr(options, name)
        if isinstance(value, Secret) and not value.file:
            inline.append(spec.key)
        path = value.file if isinstance(value, Secret) else value if name in ("ssl_key", "zookeeper_ssl_key") else None
        if path and others_may_read(path):
            yield f"{spec.key}: every user may read {path}; chmod o-r"
    if inline and file is not None and others_may_read(file):
        yield f"{inline[0]}: every user may read it in {file}; chmod o-r, or use file: with another file"


def broker_security_problems(options: SecurityOptions) -> Iterator[str]:
    """Conflicts between these options, files that cannot be used: sentences without the file's name."""
    kafka, protocol, mechanism = options.BEFORE, options.security_protocol, options.sasl_mechanism
    encrypts, logs_in = protocol.endswith("SSL"), protocol.startswith("SASL")
    files = (options.ssl_ca, options.ssl_certificate, options.ssl_key)
    if not encrypts and any(files):
        yield f"files of '{kafka}ssl' are given, but '{kafka}security.protocol' is {protocol}: nothing would be TLS"
    if options.ssl_key is not None and options.ssl_certificate is None:
        yield f"'{kafka}ssl.key.location' needs '{kafka}ssl.certificate.location'"
    if logs_in and mechanism is None:
        yield f"'{kafka}security.protocol' {protocol} needs '{kafka}sasl.mechanism': {', '.join(MECHANISMS)}"
    elif not logs_in and (
        mechanism or options.sasl_username is not None or options.sasl_callback or options.sasl_hosts
    ):
        yield f"'{kafka}sasl' options are given, but '{kafka}security.protocol' is {protocol}, which has no login"
    elif logs_in and mechanism == OAUTHBEARER:
        if options.sasl_callback is None:
            yield f"'{kafka}sasl.mechanism' OAUTHBEARER needs '{kafka}sasl.oauthbearer.callback', which gets the tokens"
        else:
            try:
                load_callback(options.sasl_callback)
            except NotLoaded as problem:
                yield str(problem)
    elif logs_in and (options.sasl_username is None or options.sasl_password is None):
        yield f"'{kafka}sasl.mechanism' {mechanism} needs '{kafka}sasl.username' and '{kafka}sasl.password'"
    if encrypts and not (options.ssl_key is not None and options.ssl_certificate is None):
        try:
            security_of_brokers(options).tls.checked()
        except TlsUnusable as problem:
            yield str(problem)
