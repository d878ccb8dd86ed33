"""Passwords, tokens and keys: masked by their option's own mark, wherever a value, an error or a command is printed."""

from __future__ import annotations

import importlib
import json
import logging
import pickle
import pkgutil
import re
import secrets
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kafkawire
import mirrormaker
import producer
import sparkpipeline
import zkconsumer
from groundwork.logs import KazooLog, set_up_logging
from groundwork.optionfiles import YamlRefused, yaml_values
from groundwork.options import OptionError, Options, Secret, load, reference, specs
from groundwork.zksecurity import ZkSecurity
from kafkawire.net.security import Sasl, Security
from kafkawire.net.tls import Tls
from mirrormaker.commands.configured import check
from mirrormaker.config import from_flags, from_yaml
from mirrormaker.workers.process import OPTION, command_line
from sparkpipeline.backfill.backfillplan import SECRETS, is_secret
from sparkpipeline.source.sourceoptions import without_passwords

TOKEN = secrets.token_hex(8)
LOOKS_SECRET = re.compile(
    r"password|passwd|secret|token|credential|keytab|jaas|private|\.auth$|oauthbearer\.config|\bpass\b|api.?key", re.I
)
# Options whose name looks so and which hold none.
NO_SECRETS: dict[str, str] = {}


def all_options() -> list[type[Options]]:
    """Every class of options of this software, by importing all of it."""
    for package in (kafkawire, mirrormaker, producer, sparkpipeline, zkconsumer):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if re.search(r"options|config|security|stages|load", module.name) and "__main__" not in module.name:
                importlib.import_module(module.name)
    found: list[type[Options]] = []
    waiting = list(Options.__subclasses__())
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        if one not in found and not one.__module__.startswith("tests."):
            found.append(one)
    return found


CLASSES = sorted(all_options(), key=lambda cls: f"{cls.__module__}.{cls.__qualname__}")


def test_whatever_looks_secret_is_marked_as_that() -> None:
    assert len(CLASSES) >= 12
    unmarked = {
        f"{cls.__name__} {spec.key}"
        for cls in CLASSES
        for spec in specs(cls).values()
        if not spec.secret and any(LOOKS_SECRET.search(name) for name in (spec.key, *spec.old))
    }
    assert unmarked == set(NO_SECRETS)


def test_what_is_marked_is_held_in_a_secret() -> None:
    marked = [(cls, name, spec) for cls in CLASSES for name, spec in specs(cls).items() if spec.secret]
    assert len(marked) > 20
    for cls, name, spec in marked:
        (field,) = (one for one in fields(cls) if one.name == name)  # type: ignore[arg-type]
        assert "Secret" in str(field.type), (cls, spec.key)
        assert "never printed" in spec.meaning, (cls, spec.key)


def _marked() -> Iterator[tuple[type[Options], str]]:
    seen = set()
    for cls in CLASSES:
        for spec in specs(cls).values():
            if spec.secret and (cls.__name__, spec.key) not in seen:
                seen.add((cls.__name__, spec.key))
                yield cls, spec.key


@pytest.mark.parametrize(("cls", "key"), list(_marked()), ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_no_error_and_no_repr_shows_one(cls: type[Options], key: str) -> None:
    """Well formed, of the wrong form, of the wrong type, and under two names that differ."""
    values: list[object] = [f"digest:ann:{TOKEN}", TOKEN, [TOKEN], {"a": TOKEN}, f"  {TOKEN}\x00 "]
    for jvm in (False, True):
        for value in values:
            said = ""
            try:
                said = repr(load(cls, {key: value}, "here", jvm=jvm))
            except OptionError as refused:
                said = f"{refused} {refused!r} {refused.problems}"
            assert TOKEN not in said


def test_the_reference_pages_have_no_defaults_for_them() -> None:
    for cls in CLASSES:
        for spec in specs(cls).values():
            if spec.secret:
                row = next(line for line in reference(cls).splitlines() if line.startswith(f"| `{spec.key}`"))
                assert row.split(" | ")[-3].strip() == "" or row.split(" | ")[2].strip() == ""


# ---- configurations ------------------------------------------------------------------------------------------------

MIRROR = f"""
sources:
- {{name: dc1, zookeeper.connect: 'zk1:2181/src', group.id: g, zookeeper.auth: 'digest:ann:{TOKEN}',
   security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: ann, sasl.password: '{TOKEN}'}}
target: {{metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk1:2181/dst',
   target.zookeeper.auth: 'digest:ann:{TOKEN}', security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN,
   sasl.username: ann, sasl.password: '{TOKEN}'}}
mirror: {{whitelist: 'a.*'}}
"""
DAMAGE = (
    ("group.id: g,", "grup.id: g,"),
    ("sasl.mechanism: PLAIN", "sasl.mechanism: PLANE"),
    (f"sasl.password: '{TOKEN}'", f"sasl.passwrd: '{TOKEN}'"),
    (f"zookeeper.auth: 'digest:ann:{TOKEN}'", f"zookeeper.auth: '{TOKEN}'"),
    (f"sasl.password: '{TOKEN}'", f"sasl.password: *{TOKEN}"),
    (f"sasl.password: '{TOKEN}'", f"sasl.password: !{TOKEN}"),
    (f"sasl.password: '{TOKEN}'", f"sasl.password: '{TOKEN}"),
    (f"sasl.password: '{TOKEN}'", f"sasl.password: {TOKEN}: {TOKEN}"),
    (f"sasl.password: '{TOKEN}'", f"sasl.password: [{TOKEN}]"),
    (f"sasl.password: '{TOKEN}'", f"sasl.password: '{TOKEN}', sasl.password: '{TOKEN}x'"),
    (f"sasl.password: '{TOKEN}'", f"sasl.jaas.config: 'PlainLoginModule required password=\"{TOKEN}\";'"),
    ("mirror:", f"%{TOKEN}\nmirror:"),
)


def test_a_configuration_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MIRROR)
    loaded = from_yaml(tmp_path / "m.yaml")
    assert loaded.target.zookeeper_auth == Secret(f"digest:ann:{TOKEN}")
    said = f"{loaded} {loaded!r} {loaded.sources[0].kafka_security} {loaded.target.security} {loaded.notes}"
    assert TOKEN not in said
    assert "***" in said


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_no_error_of_a_damaged_configuration_quotes_it(number: int, tmp_path: Path) -> None:
    was, becomes = DAMAGE[number]
    assert was in MIRROR
    (tmp_path / "m.yaml").write_text(MIRROR.replace(was, becomes))
    with pytest.raises(OptionError) as refused:
        from_yaml(tmp_path / "m.yaml")
    assert TOKEN not in f"{refused.value} {refused.value!r}"
    done = CliRunner().invoke(check, [str(tmp_path / "m.yaml")])
    assert done.exit_code != 0
    assert TOKEN not in done.output


def test_the_original_s_files_neither(tmp_path: Path) -> None:
    consumer, target = tmp_path / "c.properties", tmp_path / "p.properties"
    target.write_text(f'metadata.broker.list=k:9092\nsasl.jaas.config=x required password="{TOKEN}";\n')
    consumer.write_text(
        f"zookeeper.connect=zk:2181\ngroup.id=g\nzookeeper.auth={TOKEN}\nssl.keystore.password={TOKEN}\n"
    )
    with pytest.raises(OptionError) as refused:
        from_flags([consumer], target, {"whitelist": "a.*"})
    assert TOKEN not in f"{refused.value} {refused.value!r}"


@pytest.mark.parametrize(
    "text", [f"a: *{TOKEN}", f"a: !{TOKEN} x", f"a: '{TOKEN}", f"{TOKEN}: b: c", f'a: "\\q{TOKEN}"'], ids=range(5)
)
def test_what_is_no_yaml_is_not_quoted(text: str) -> None:
    with pytest.raises(YamlRefused) as refused:
        yaml_values(text)
    assert TOKEN not in str(refused.value)
    assert "line 1" in str(refused.value)


# ---- values, logs, processes ---------------------------------------------------------------------------------------


def test_values_with_a_password_can_be_printed() -> None:
    held = Secret(TOKEN)
    values: list[Any] = [
        held,
        Security(protocol="SASL_SSL", tls=Tls(password=held), sasl=Sasl("PLAIN", "ann", held, None, held)),
        ZkSecurity(auth=held),
    ]
    for value in values:
        assert TOKEN not in f"{value} {value!r} {[value]} {json.dumps(value, default=str)}"
        assert pickle.loads(pickle.dumps(value)) == value


def test_kazoo_s_own_log_of_the_login_is_not_shown_at_any_level(capsys: pytest.CaptureFixture[str]) -> None:
    """`Sending request(xid=-4): Auth(auth_type=0, scheme='digest', auth='ann:…')` is a debug line of kazoo's."""
    handler = set_up_logging("debug")
    try:
        KazooLog().debug("Sending request(xid=%s): %s", -4, f"Auth(auth='ann:{TOKEN}')")
        KazooLog().info("connected")
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    said = capsys.readouterr().err
    assert "connected" in said
    assert TOKEN not in said


def test_the_command_line_of_a_worker_has_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/PID/cmdline is for everybody: a worker is told its configuration through its socket."""
    monkeypatch.setattr(sys, "argv", ["mirrormaker", "run", "/etc/m.yaml"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "mirrormaker", "run", "/etc/m.yaml"])
    assert command_line(3, 7) == [sys.executable, "mirrormaker", "run", OPTION, "3:7", "/etc/m.yaml"]


def test_plans_of_spark_jobs_leave_out_what_is_marked() -> None:
    marked = {spec.key for cls in CLASSES if cls.__module__.startswith("sparkpipeline.") for spec in specs(cls).values()
              if spec.secret and cls.__name__ in ("SourceOptions", "SinkOptions")}  # fmt: skip
    assert {name.lower() for name in marked} == {name.lower() for name in SECRETS}
    assert all(is_secret(name.upper()) for name in marked)
    given = dict.fromkeys([*marked, *(name.upper() for name in marked), "topic"], TOKEN)
    assert set(without_passwords(given)) == {"topic"}
