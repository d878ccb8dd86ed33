"""Secrets in files and in credentials of systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.credentials import MAX_BYTES, secret_file, secret_text
from groundwork.optionvalues import SecretUnreadable


@pytest.mark.parametrize(
    ("data", "secret"),
    [
        (b"digest:ann:pw", "digest:ann:pw"),
        (b"digest:ann:pw\n", "digest:ann:pw"),
        (b"digest:ann:pw\r\n", "digest:ann:pw"),
        (b" two words \n\n", " two words \n"),  # one line end is an editor's, the rest is the secret's
        ("Zoë".encode(), "Zoë"),
    ],
)
@pytest.mark.parametrize("place", ["file", "credential"])
def test_the_text_of_the_file_without_its_line_end_is_the_secret(
    data: bytes, secret: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zk").write_bytes(data)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert secret_text(f"file:{tmp_path}/zk" if place == "file" else "credential:zk") == secret


@pytest.mark.parametrize("raw", ["digest:ann:pw", "", 7, None, "files:/x"])
def test_everything_else_is_left_as_it_is(raw: object) -> None:
    assert secret_text(raw) == raw
    assert secret_file(raw) is None


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("file:zk", "file:zk: a path from / on is expected behind file:"),
        ("credential:", "credential:: the name of a credential is expected"),
        ("credential:../zk", "the name of a credential is expected behind credential:, without /"),
        ("credential:..", "the name of a credential is expected"),
    ],
)
def test_what_names_no_file_is_a_sentence(raw: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/x")
    with pytest.raises(SecretUnreadable, match="^" + said.replace(".", r"\.") if said.startswith(raw) else said):
        secret_text(raw)


def test_a_credential_outside_of_a_service_says_how_one_gets_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(SecretUnreadable, match=r"^credential:zk: there are no credentials: .* LoadCredential=zk:PATH"):
        secret_text("credential:zk")


def test_a_file_that_cannot_be_had_is_named_and_its_text_is_not(tmp_path: Path) -> None:
    file = tmp_path / "zk"
    for data, said in [
        (None, "cannot be read: No such file or directory"),
        (b"\n", "is empty"),
        (b"sec-ret \xff", "is not UTF-8"),
        (b"s" * (MAX_BYTES + 1), "is larger than 1048576 bytes"),
    ]:
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(SecretUnreadable) as caught:
            secret_text(f"file:{file}")
        assert str(caught.value).startswith(f"file:{file}: {file} {said}")
        assert not caught.value.forbidden
        assert "sec-ret" not in str(caught.value)
