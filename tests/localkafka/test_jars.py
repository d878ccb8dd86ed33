"""Jars by Maven, with a small program in Maven's place: once, safely, and with a sentence when it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from localkafka import jars, java, releases
from localkafka.errors import LocalKafkaError

FAKE = """#!/bin/sh
echo "$@" >> {log}
for argument; do case "$argument" in -DoutputDirectory=*) out="${{argument#-DoutputDirectory=}}";; esac; done
sleep 0.3
mkdir "$out" && touch "$out/kafka.jar"
"""


def fake(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven that makes one jar and logs its arguments; the log."""
    log = tmp_path / "maven.log"
    fake(tmp_path / "bin", "mvn", FAKE.format(log=log))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("LOCALKAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return log


def test_jars_are_fetched_once_and_said_so(maven: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert [path.name for path in jars.folder("0.8.2.2").iterdir()] == ["kafka.jar"]
    assert "fetching the jars of Kafka 0.8.2.2 with Maven, once" in capfd.readouterr().err
    jars.folder("0.8.2.2")
    assert len(maven.read_text().splitlines()) == 1
    assert capfd.readouterr().err == ""


def test_two_processes_at_the_same_time_fetch_once(maven: Path) -> None:
    program = "from localkafka import jars; print(len(list(jars.folder('0.8.2.2').iterdir())))"
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=-1, stderr=-1, text=True) for _ in range(2)]
    assert [process.communicate(timeout=30)[0].strip() for process in started] == ["1", "1"]
    assert len(maven.read_text().splitlines()) == 1


def test_an_empty_home_stays_empty_and_an_existing_repository_is_used(maven: Path, tmp_path: Path) -> None:
    jars.folder("0.8.2.2")
    assert f"-Dmaven.repo.local={tmp_path / 'cache' / 'm2'}" in maven.read_text()
    assert not (tmp_path / "home").exists()
    (tmp_path / "home" / ".m2").mkdir(parents=True)
    jars.folder("0.8.1.1")
    assert f"-Dmaven.repo.local={tmp_path / 'home' / '.m2' / 'repository'}" in maven.read_text()


def test_a_failing_maven_is_quoted_and_leaves_nothing_half_done(maven: Path, tmp_path: Path) -> None:
    coloured = r"printf '\033[0m\033[1;31m[ERROR]\033[m no route to the registry\n'; exit 1"
    fake(tmp_path / "bin", "mvn", FAKE.format(log=maven) + coloured)
    with pytest.raises(LocalKafkaError, match=r"0\.8\.2\.2 \(exit 1\)[\s\S]*\n    \[ERROR\] no route to the registry"):
        jars.folder("0.8.2.2")
    assert not (tmp_path / "cache" / "jars" / "0.8.2.2").exists()


def test_a_missing_maven_is_named_with_what_helps(maven: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(LocalKafkaError, match=r"mvn is not on the PATH.*install Maven"):
        jars.folder("0.8.2.2")


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOCALKAFKA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LocalKafkaError, match=r"cannot make the cache folder .*LOCALKAFKA_CACHE"):
        jars.cache()


def test_a_missing_java_is_named_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(LocalKafkaError, match=r"java is not on the PATH.*install Java 17"):
        java.executable()


@pytest.mark.parametrize(
    ("said", "is_"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_402"', 8)]
)
def test_javas_version_is_read_in_both_spellings(tmp_path: Path, said: str, is_: int) -> None:
    fake(tmp_path, "java", f"#!/bin/sh\necho '{said}' >&2\n")
    assert java.feature_version(str(tmp_path / "java")) == is_


def test_a_java_too_old_is_named_with_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "bin", "java", "#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalKafkaError, match=r"is Java 11, and Kafka 4\.3\.1 needs Java 17"):
        java.command(releases.release("4.3.1"), "Main", [])
