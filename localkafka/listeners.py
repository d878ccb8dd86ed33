"""Listeners of a real broker with TLS and SASL, beside its plain one, and the users that may log in.

    listeners = SecureListeners(folder, {"SSL": "SSL", "SASL_SSL": "SASL_SSL"})
    cluster.nodes[0].secure = listeners               # or KraftBroker(..., secure=listeners); before the start
    listeners.address("SASL_SSL")                     # "127.0.0.1:12345"

The plain listener stays: brokers, tools and tests of this package use it.  Users are USERS; add_scram_users creates
those of SCRAM once the broker runs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from localkafka import java, ports
from localkafka.certificates import PASSWORD, Authority
from localkafka.errors import LocalKafkaError
from localkafka.releases import Release

USERS = {"ann": "ann=secret,1"}
PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
PEM_FROM = (2, 7)  # KIP-651
CONFIG = "kafka.admin.ConfigCommand"
_MODULES = "org.apache.kafka.common.security"


class SecureListeners:
    """Secure listeners of a broker. protocols: security protocol by listener; the name of a listener is its protocol,
    or any other in capitals.

    authority    signs the broker's certificate, and those of clients if required
    settings     more settings, such as listener.name.mutual.ssl.client.auth: required
    mechanisms   of SASL, of all its listeners
    """

    def __init__(
        self,
        folder: Path,
        protocols: Mapping[str, str],
        *,
        authority: Authority | None = None,
        settings: Mapping[str, str] | None = None,
        mechanisms: tuple[str, ...] = MECHANISMS,
    ) -> None:
        self.protocols = dict(protocols)
        self.authority = authority or Authority(folder)
        self.identity = self.authority.issue("broker")
        self.mechanisms = mechanisms
        self._more = dict(settings or {})
        self._folder = folder
        self._ports = {name: ports.reserve() for name in protocols}

    def address(self, listener: str) -> str:
        """Return host:port of a listener, as a bootstrap list."""
        return f"{ports.HOST}:{self._ports[listener].number}"

    def extended(self, properties: Mapping[str, str], release: Release) -> dict[str, str]:
        """Return a broker's settings with these listeners added to those it has."""
        found = dict(properties)
        added = ",".join(f"{name}://{self.address(name)}" for name in self.protocols)
        for key in ("listeners", "advertised.listeners"):
            found[key] = f"{found[key]},{added}"
        named = found.get("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")
        if any(name != protocol for name, protocol in self.protocols.items()) or "CONTROLLER" in named:
            more = ",".join(f"{name}:{protocol}" for name, protocol in self.protocols.items())
            found["listener.security.protocol.map"] = f"{named},{more}"
        store = {"location": str(self.identity.store), "type": "PKCS12", "password": PASSWORD}
        found |= {f"ssl.keystore.{key}": value for key, value in store.items()} | {"ssl.key.password": PASSWORD}
        if release.number >= PEM_FROM:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate)}
        logins = [name for name, protocol in self.protocols.items() if protocol.startswith("SASL")]
        if logins:
            found["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            if release.number >= (1, 1):
                for name in logins:
                    found |= self._logins(f"listener.name.{name.lower()}")
        return found | self._more

    def flags(self, release: Release) -> list[str]:
        """Return flags of the JVM: before 1.1 logins are in a separate file."""
        if release.number >= (1, 1) or not any(name.startswith("SASL") for name in self.protocols.values()):
            return []
        scram = any(name in self.mechanisms for name in SCRAM)
        modules = [_plain_login(), *([f"{_MODULES}.scram.ScramLoginModule required;"] if scram else [])]
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "broker.jaas"
        file.write_text("KafkaServer {\n" + "\n".join(modules) + "\n};\n")
        return [f"-Djava.security.auth.login.config={file}"]

    def _logins(self, prefix: str) -> dict[str, str]:
        modules = {
            PLAIN: _plain_login(),
            **dict.fromkeys(SCRAM, f"{_MODULES}.scram.ScramLoginModule required;"),
            OAUTHBEARER: f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        }
        return {f"{prefix}.{name.lower()}.sasl.jaas.config": modules[name] for name in self.mechanisms}

    def close(self) -> None:
        for port in self._ports.values():
            port.release()


def _plain_login() -> str:
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    return f'{_MODULES}.plain.PlainLoginModule required username="broker" password="broker" {users};'


def add_scram_users(release: Release, *, brokers: str, zookeeper: str = "") -> None:
    """Create USERS with both mechanisms: by a plain address of the brokers, before 2.7 by ZooKeeper.

    Raises LocalKafkaError.
    """
    where = ["--bootstrap-server", brokers] if release.number >= (2, 7) else ["--zookeeper", zookeeper]
    for name, password in USERS.items():
        for mechanism in SCRAM:  # a broker accepts only one mechanism of a user at a time
            made = f"{mechanism}=[password={password}]"
            arguments = [*where, "--alter", "--add-config", made, "--entity-type", "users", "--entity-name", name]
            argv = java.command(release, CONFIG, arguments, level="ERROR")
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=120)
            if done.returncode:
                raise LocalKafkaError(f"{CONFIG} for user {name} ended with {done.returncode}: {done.stderr[-2000:]}")
