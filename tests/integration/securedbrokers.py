"""A real broker with listeners of every kind of security, and how clients of each are configured.

SSL  MUTUAL  SASL_PLAINTEXT  SASL_SSL      what they are called; MUTUAL asks for a client certificate
EXPIRED  ELSEWHERE                         TLS with a certificate that has ended, and one for another host
ONLYPLAIN                                  SASL_SSL that knows PLAIN alone
SHORT                                      SASL_SSL where a login lasts four seconds
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from localkafka.certificates import PASSWORD, Authority, Identity
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.listeners import MECHANISMS, SCRAM, USERS, SecureListeners, add_scram_users
from localkafka.releases import Release
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt

PROTOCOLS = {
    "SSL": "SSL", "MUTUAL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL",
}  # fmt: skip
FAULTY = {"EXPIRED": "SSL", "ELSEWHERE": "SSL", "ONLYPLAIN": "SASL_SSL"}
LOGIN_MS = 4000
[USER] = USERS


def a_token(config: str) -> tuple[str, float]:
    """An unsecured token (RFC 7519) for as many seconds as config says, as brokers' tests take them."""
    now = time.time()
    ends = now + float(config or 600)
    return f"{_part({'alg': 'none'})}.{_part({'sub': USER, 'iat': now - 1, 'exp': ends})}.", ends


def _part(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


class SecuredBroker:
    """One broker: its listeners, and options of clients that it takes."""

    def __init__(self, folder: Path, protocols: dict[str, str], mechanisms: tuple[str, ...] = MECHANISMS) -> None:
        self.authority = Authority(folder / "authority")
        self.client = self.authority.issue("client")
        settings = {"listener.name.mutual.ssl.client.auth": "required"} if "MUTUAL" in protocols else {}
        if "EXPIRED" in protocols:
            settings |= _store("expired", self.authority.issue("expired", expired=True))
            settings |= _store("elsewhere", self.authority.issue("elsewhere", "DNS:kafka.example.org"))
            settings |= {"listener.name.onlyplain.sasl.enabled.mechanisms": "PLAIN"}
        if "SHORT" in protocols:
            for mechanism in mechanisms:
                settings[f"listener.name.short.{mechanism.lower()}.connections.max.reauth.ms"] = str(LOGIN_MS)
        self.listeners = SecureListeners(
            folder / "listeners", protocols, authority=self.authority, settings=settings, mechanisms=mechanisms
        )
        self.broker: Any = None  # a KraftBroker, or a Cluster of one

    @property
    def release(self) -> Release:
        release: Release = self.broker.release
        return release

    def address(self, listener: str) -> str:
        return self.listeners.address(listener)

    def options(self, listener: str, mechanism: str = "", **more: str) -> dict[str, str]:
        """security.protocol, ssl.* and sasl.* for a listener; more: in place of these, dots as underscores."""
        protocol = self.listeners.protocols[listener]
        found = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            found["ssl.ca.location"] = str(self.authority.certificate)
        if listener == "MUTUAL":
            found |= {
                "ssl.certificate.location": str(self.client.certificate),
                "ssl.key.location": str(self.client.locked),
                "ssl.key.password": PASSWORD,
            }
        if protocol.startswith("SASL"):
            found |= logins(mechanism)
        return found | {key.replace("_", "."): value for key, value in more.items()}


def logins(mechanism: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, "sasl.oauthbearer.callback": f"{__name__}:a_token"}
    return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": USERS[USER]}


def _store(listener: str, identity: Identity) -> dict[str, str]:
    prefix = f"listener.name.{listener}.ssl"
    return {
        f"{prefix}.keystore.location": str(identity.store),
        f"{prefix}.keystore.password": PASSWORD,
        f"{prefix}.keystore.type": "PKCS12",
        f"{prefix}.key.password": PASSWORD,
    }


def _make_users(brokers: str) -> None:
    """USERS with both mechanisms, as add_scram_users makes them, without two JVMs (from 2.7 on)."""
    for name, password in USERS.items():
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # one of a user at a time
            info = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
            wait_until(partial(_made, brokers, name, info), 120, f"user {name} is made")


def _made(brokers: str, name: str, info: UserScramCredentialUpsertion) -> bool:
    """Whether a user was made.  A broker that has just started may leave the request unanswered: it is asked anew."""
    admin = AdminClient({"bootstrap.servers": brokers})  # kept: without it nobody gets the answer
    try:
        admin.alter_user_scram_credentials([info])[name].result(5)
    except (KafkaException, TimeoutError):
        return False
    return True


@contextmanager
def kraft(folder: Path, version: str, protocols: dict[str, str], scram: bool = True) -> Iterator[SecuredBroker]:
    """Without ZooKeeper."""
    made = SecuredBroker(folder, protocols)
    made.broker = KraftBroker(folder / "broker", version, secure=made.listeners)
    with made.broker:
        if scram:
            _make_users(made.broker.brokers)
        yield made


@contextmanager
def on_zookeeper(
    folder: Path,
    version: str,
    protocols: dict[str, str],
    zookeeper: ZooKeeperAt,
    mechanisms: tuple[str, ...] = MECHANISMS,
) -> Iterator[SecuredBroker]:
    """With ZooKeeper; .broker is a Cluster."""
    made = SecuredBroker(folder, protocols, mechanisms)
    with_scram = any(name in mechanisms for name in SCRAM) and any(p.startswith("SASL") for p in protocols.values())
    cluster = Cluster(version=version, zookeeper=zookeeper)
    made.broker = cluster
    cluster.nodes[0].secure = made.listeners
    with cluster:
        if with_scram and made.release.number < (2, 7):
            add_scram_users(made.release, brokers=cluster.brokers, zookeeper=cluster.zookeeper)
        elif with_scram:
            _make_users(cluster.brokers)
        yield made
