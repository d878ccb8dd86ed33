"""What no program here may do, held against its source: shells, evaluation, unsafe YAML, pickles of strangers."""

from __future__ import annotations

import ast
import hashlib
import ssl
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from groundwork.options import specs
from groundwork.tasks import tls_context
from groundwork.tlscontext import TlsUnusable, plain_tls
from groundwork.zksecurity import Tls as ZkTls
from kafkawire.cluster.release import _client_hello
from kafkawire.net.sasl import MAX_ITERATIONS
from kafkawire.net.tls import VERSIONS, Tls
from kafkawire.securityoptions import SecurityOptions

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "groundwork", "kafkawire", "zkconsumer", "groupadmin", "producer", "mirrormaker", "sparkpipeline", "localkafka",
)  # fmt: skip
# Operators' own modules, by name; a supervisor's configuration to its own worker; a plan, of listed classes alone.
ALLOWED = {
    ("groundwork/named.py", "exec"),
    ("mirrormaker/workers/process.py", "pickle.loads"),
}
FORBIDDEN = {"eval", "exec", "os.system", "os.popen", "pickle.loads", "pickle.load", "yaml.load", "yaml.unsafe_load"}


def parsed(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """The files that hold one of these words, by path, parsed: that of all would take seconds."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        data = path.read_bytes()
        if any(word.encode() in data for word in words):
            yield path.relative_to(ROOT).as_posix(), ast.parse(data)


def test_nothing_dangerous_is_called() -> None:
    assert len([path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]) > 300
    found = set()
    for where, module in parsed("eval", "exec", "os.system", "popen", "pickle", "yaml.", "shell"):
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in FORBIDDEN:
                    found.add((where, name))
                if any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords):
                    found.add((where, "shell"))
    assert found == ALLOWED


# What may switch the checks of a certificate off, and by which option; what may choose how old TLS may be.
UNCHECKED = {
    ("groundwork/tlscontext.py", "check_hostname = False"): "zookeeper.ssl.verify: false",
    ("groundwork/tlscontext.py", "verify_mode = ssl.CERT_NONE"): "zookeeper.ssl.verify: false",
    ("kafkawire/net/tls.py", "check_hostname = self.host_check"): "ssl.endpoint.identification.algorithm: none",
}
CHECKS = {"check_hostname", "verify_mode"}


def test_certificates_and_names_of_hosts_are_checked_but_where_an_option_says_otherwise() -> None:
    found = set()
    for where, module in parsed(*CHECKS, "_create_unverified", "_create_default_https"):
        for node in ast.walk(module):
            assert "_create_" not in getattr(node, "attr", ""), where
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    names = [one.attr for one in ast.walk(target) if isinstance(one, ast.Attribute)]
                    if set(names) & CHECKS:
                        found.add((where, f"{' '.join(names)} = {ast.unparse(node.value)}"))
    assert found == set(UNCHECKED)


def test_tls_is_at_least_1_2_and_checks_by_default() -> None:
    nothing = {"ca": None, "certificate": None, "key": None, "password": None}
    for context in (
        plain_tls(**nothing, verify=True), tls_context(**nothing, verify=True), Tls().checked(),
        ZkTls().context(plain_tls), ZkTls().context(tls_context),
    ):  # fmt: skip
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
        assert context.check_hostname
        assert context.verify_mode == ssl.CERT_REQUIRED
    for context in (plain_tls(**nothing, verify=False), tls_context(**nothing, verify=False)):
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert Tls(host_check=False).checked().verify_mode == ssl.CERT_REQUIRED
    options = {spec.key: name for name, spec in specs(SecurityOptions).items()}
    defaults = {field.name: field.default for field in fields(SecurityOptions)}
    assert defaults[options["ssl.min.version"]] == "TLSv1.2"
    assert defaults[options["ssl.endpoint.identification.algorithm"]] == "https"
    assert defaults[options["zookeeper.ssl.verify"]] is True
    assert set(VERSIONS) == {"TLSv1.2", "TLSv1.3"}


def test_a_probe_for_tls_trusts_nobody_more_than_the_connections(tmp_path: Path) -> None:
    """It says the first word of a handshake, by the settings of the cluster's own connections."""
    asked: list[Tls] = []

    class Noting(Tls):
        def checked(self) -> ssl.SSLContext:
            asked.append(self)
            return super().checked()

    _client_hello("broker.example", Noting(min_version="TLSv1.3"))
    assert [one.min_version for one in asked] == ["TLSv1.3"]
    with pytest.raises(TlsUnusable):
        _client_hello("broker.example", Tls(ca=str(tmp_path / "none.pem")))


def test_iterations_of_scram_cost_less_than_what_a_heartbeat_waits_for() -> None:
    """The most that a broker may ask for; the event loop goes on meanwhile (the login's caller gives a thread)."""
    began = time.process_time()
    hashlib.pbkdf2_hmac("sha512", b"password", b"salt" * 8, MAX_ITERATIONS // 10)
    assert time.process_time() - began < 0.5  # a tenth of it, on a slow machine
    assert MAX_ITERATIONS >= 16_384  # what Kafka lets be set
