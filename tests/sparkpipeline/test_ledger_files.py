"""Files on a disk, and which files a base means."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sparkpipeline.errors import OptionRefused, StorageFailed
from sparkpipeline.ledger.base import needs_spark, normal_base, open_files
from sparkpipeline.ledger.local import LocalFiles, local_path
from tests.sparkpipeline.filescontract import Promise, every_promise


@every_promise
def test_a_disk_keeps(promise: Promise, tmp_path: Path) -> None:
    promise(LocalFiles(), f"file://{tmp_path}/a b")


def test_a_plain_path_is_the_same_as_its_uri(tmp_path: Path) -> None:
    files = LocalFiles()
    assert files.create(f"{tmp_path}/one", b"1")
    assert files.read(f"file://{tmp_path}/one") == files.read(f"file:{tmp_path}/one") == b"1"
    assert local_path(f"file://localhost{tmp_path}/one") == tmp_path / "one"
    for wrong in ("one/two", "hdfs://nn/one", "file://elsewhere/one", "file:one"):
        with pytest.raises(OptionRefused):
            local_path(wrong)


def test_a_file_that_is_made_has_the_rights_that_a_user_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        LocalFiles().create(f"{tmp_path}/new/one", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "one").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750


def test_a_crash_while_a_file_is_made_leaves_no_half_of_it(tmp_path: Path) -> None:
    program = f"from sparkpipeline.ledger.local import LocalFiles; LocalFiles().create('{tmp_path}/one', b'1' * 9)"
    killed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "GROUNDWORK_FAILPOINTS": "files before link=kill"},
        capture_output=True,
        timeout=30,
    )
    assert killed.returncode == -9, killed.stderr
    assert not (tmp_path / "one").exists()
    assert [path.name[:5] for path in tmp_path.iterdir()] == [".one."]
    assert LocalFiles().create(f"{tmp_path}/one", b"2")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody who may not")
def test_a_folder_that_may_not_be_written_is_said_so() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = (
            "import os; from sparkpipeline.ledger.local import LocalFiles; os.setuid(65534)\n"
            f"try: LocalFiles().create('{folder}/one', b'1')\nexcept Exception as exc: print(exc)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
        assert f"file={folder}/one: cannot create it: Permission denied (not permitted)" in done.stdout, done.stderr
        assert os.listdir(folder) == []


def test_a_disk_without_hard_links_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageFailed, match=r"Operation not permitted .*or the disk has no hard links"):
        LocalFiles().create(f"{tmp_path}/one", b"1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("/warehouse/orders", "file:///warehouse/orders"),
        ("/warehouse//orders///", "file:///warehouse/orders"),
        ("file:/warehouse/a b/", "file:///warehouse/a b"),
        ("file:///warehouse/100%25", "file:///warehouse/100%25"),
        ("file://localhost/w", "file:///w"),
        ("hdfs://nn:8020/orders/", "hdfs://nn:8020/orders"),
        ("HDFS://nn:8020//orders/./x", "hdfs://nn:8020/orders/x"),
        ("hdfs:///orders", "hdfs:///orders"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/", "s3a://bucket"),
        ("/w/t+3 =x", "file:///w/t+3 =x"),
    ],
)
def test_a_base_has_one_spelling(written: str, normal: str) -> None:
    assert normal_base(written) == normal
    assert normal_base(normal) == normal
    assert needs_spark(written) == (not normal.startswith("file:"))


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("orders", "not an absolute path"),
        ("~/orders", "not an absolute path"),
        ("", "not an absolute path"),
        ("/w/*", "reads as a pattern"),
        ("hdfs://nn/{a,b}", "reads as a pattern"),
        ("/w/../x", r"has \.\. in it"),
        ("hdfs:orders", "names no host or bucket"),
        ("file://elsewhere/w", "names the machine elsewhere"),
    ],
)
def test_a_base_that_cannot_be_meant_is_refused(base: str, said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        normal_base(base)


class Session:
    """As much of a Spark session as asking for its default file system takes."""

    def __init__(self, default: str) -> None:
        self.default = default

    @property
    def sparkContext(self) -> Any:
        return self

    @property
    def _jsc(self) -> Any:
        return self

    def hadoopConfiguration(self) -> Any:
        return self

    def get(self, key: str, otherwise: str) -> str:
        assert key == "fs.defaultFS"
        return self.default or otherwise


def test_a_plain_path_on_a_cluster_with_hdfs_is_refused_for_it_may_be_either() -> None:
    with pytest.raises(OptionRefused, match="write file:///orders or hdfs://nn:8020/orders"):
        open_files("/orders", Session("hdfs://nn:8020"))
    assert isinstance(open_files("file:///orders", Session("hdfs://nn:8020")), LocalFiles)
    assert isinstance(open_files("/orders", Session("file:///")), LocalFiles)
    assert isinstance(open_files("/orders"), LocalFiles)


def test_hdfs_needs_a_session() -> None:
    with pytest.raises(OptionRefused, match="there is no Spark session"):
        open_files("hdfs://nn/orders")


def test_a_spark_connect_session_is_refused() -> None:
    for base in ("/orders", "hdfs://nn/orders"):
        with pytest.raises(OptionRefused, match="a Spark Connect session has no Hadoop client here"):
            open_files(base, object())
