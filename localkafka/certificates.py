"""Certificates for tests: an authority, and what it signs, in PEM and PKCS12, by the openssl program."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from localkafka.errors import LocalKafkaError

PASSWORD = "secret-1"  # of keys and stores
LOCAL = "DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True, slots=True)
class Identity:
    """PEM files of a certificate and of its key (`locked`: the key encrypted with PASSWORD); store: both in PKCS12."""

    certificate: Path
    key: Path
    locked: Path
    store: Path


class Authority:
    """A certificate authority with its files in a folder.  Raises LocalKafkaError where openssl fails."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.certificate, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        _new_key(self._key)
        _openssl(
            "req", "-x509", "-new", "-key", str(self._key), "-days", "30", "-subj", f"/CN={name}",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-out", str(self.certificate),
        )  # fmt: skip

    def issue(self, name: str, hosts: str = LOCAL, *, expired: bool = False, suffix: str = "") -> Identity:
        """Issue a certificate for server and client. hosts: subjectAltName; expired: it expired yesterday; suffix: of
        the file names, to issue another certificate with the same name."""
        base = self.folder / f"{name}{suffix}"
        made = Identity(*(base.with_suffix(end) for end in (".pem", ".key", ".locked.key", ".p12")))
        request, more = base.with_suffix(".csr"), base.with_suffix(".ext")
        _new_key(made.key)
        _openssl("req", "-new", "-key", str(made.key), "-subj", f"/CN={name}", "-out", str(request))
        more.write_text(f"subjectAltName={hosts}\nextendedKeyUsage=serverAuth,clientAuth\n")
        signed = ["-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(more)]
        days = ["-days", "-1"] if expired else ["-days", "20"]
        _openssl("x509", "-req", "-in", str(request), *signed, *days, "-out", str(made.certificate))
        word = f"pass:{PASSWORD}"
        _openssl("pkcs8", "-topk8", "-in", str(made.key), "-out", str(made.locked), "-passout", word)
        files = ["-in", str(made.certificate), "-inkey", str(made.key), "-certfile", str(self.certificate)]
        _openssl("pkcs12", "-export", *files, "-name", name, "-out", str(made.store), "-passout", word)
        return made


def _new_key(path: Path) -> None:
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))


def _openssl(*arguments: str) -> None:
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise LocalKafkaError("the openssl program is not on the PATH; tests need it for certificates") from None
    if done.returncode:
        raise LocalKafkaError(f"openssl {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-1000:]}")
