"""JVMs that start from archives of their classes, and Java programs that are compiled once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localkafka import jars, java, releases
from localkafka.classdata import of_release
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from tests.localkafka.test_jars import fake

RELEASE = releases.release("0.8.2.2")
SAYS = """
public class Says {
    static final Class<?> OF_THE_JARS = kafka.common.TopicAndPartition.class;

    public static void main(String[] all) {
        System.out.print(String.join("+", all));
    }
}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOCALKAFKA_CACHE", str(folder))
    return folder


@pytest.fixture
def cache_with_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with the jars of 0.8.2.2, and nothing that was made from them."""
    there = jars.folder(RELEASE.version)
    folder = tmp_path / "cache"
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / RELEASE.version).symlink_to(there)
    monkeypatch.setenv("LOCALKAFKA_CACHE", str(folder))
    return folder


def test_an_archive_is_of_one_java_and_used_where_it_is_there(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        fake(tmp_path / name / "bin", "java", f"#!/bin/sh\necho 'openjdk version \"17.{name}\"' >&2\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "one"))
    assert java.archive_flags("0.8.2.2-kafka") == ()
    java.archive("0.8.2.2-kafka").parent.mkdir(parents=True)
    java.archive("0.8.2.2-kafka").touch()
    assert java.archive_flags("0.8.2.2-kafka")[0] == f"-XX:SharedArchiveFile={java.archive('0.8.2.2-kafka')}"
    assert java.archive_flags("0.8.2.2-zookeeper") == ()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "other"))
    assert java.archive_flags("0.8.2.2-kafka") == ()


def test_spark_has_its_flags_where_there_is_no_java(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.quick_spark()["SPARK_SUBMIT_OPTS"] == " ".join(java.QUICK)


@pytest.mark.real
def test_a_broker_and_zookeeper_start_from_the_archives_of_their_classes(cache_with_jars: Path, tmp_path: Path) -> None:
    of_release(RELEASE.version)
    made = sorted((cache_with_jars / "classes").iterdir())
    assert [file.name.rpartition("-")[0] for file in made] == ["0.8.2.2-kafka", "0.8.2.2-zookeeper"]
    before = [file.stat().st_mtime_ns for file in made]
    of_release(RELEASE.version)
    assert [file.stat().st_mtime_ns for file in made] == before
    loaded = tmp_path / "loaded"
    flags = (*java.SMALL, "-Xshare:on", f"-Xlog:class+load:file={loaded}")  # it ends where the archive does not fit
    with Cluster(RELEASE.version, flags=flags) as cluster:
        cluster.create_topic("t")
    shared = [line for line in loaded.read_text().splitlines() if "source: shared objects file (top)" in line]
    assert sum(" kafka." in line for line in shared) > 200


@pytest.mark.real
def test_an_archive_of_other_jars_is_left_out_without_a_word(cache_with_jars: Path) -> None:
    of_release(RELEASE.version)
    there = cache_with_jars / "jars" / RELEASE.version
    copy = cache_with_jars / "copy"
    shutil.copytree(there, copy)  # with new times
    for jar in copy.iterdir():
        jar.touch()
    there.unlink()
    copy.rename(there)
    source = cache_with_jars / "Says.java"
    source.write_text(SAYS)
    argv = java.command(RELEASE, str(source), ["a", "b"])
    assert any(flag.startswith("-XX:SharedArchiveFile=") for flag in argv)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("a+b", "")


@pytest.mark.real
def test_a_program_is_compiled_once_also_by_two_at_a_time(cache_with_jars: Path) -> None:
    source = cache_with_jars / "Says.java"
    source.write_text(SAYS)
    class_path = jars.class_path(RELEASE.version)
    program = "from pathlib import Path; from localkafka import java; "
    program += f"print(java.compiled(Path({str(source)!r}), {class_path!r}))"
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=-1, stderr=-1, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert said[0] == said[1], said
    assert [path.name for path in (cache_with_jars / "programs").iterdir()] == [Path(said[0][0].strip()).name]
    source.write_text(SAYS.replace('"+"', '"-"'))
    done = subprocess.run(java.command(RELEASE, str(source), ["a", "b"]), capture_output=True, text=True, timeout=60)
    assert done.stdout == "a-b"
    source.write_text("public class Says {")
    with pytest.raises(LocalKafkaError, match=re.escape(f"{source} does not compile: ")):
        java.command(RELEASE, str(source), [])
