"""Who may read and write the files that this software makes: the same under any umask.

0600   what the program alone reads again: positions in a file, kept limits, undo files, locks, the control socket
0644   what other programs and operators read: offset maps (zkconsumer offsets translate), journals and plans
0700   folders that are made
umask  data of a warehouse and what an operator names as output: who may read those is decided at the site
"""

from __future__ import annotations

import ast
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwork import clocks
from groundwork.lineserver import LineServer
from groundwork.tasks import TaskGroup
from groupadmin.apply.undofile import _kept
from groupadmin.commands.migratebase import keep
from groupadmin.files.read import read_offsets
from groupadmin.migrate.journal import JournalHeader, Reached, open_journal
from groupadmin.migrate.rules.states import StepName
from groupadmin.migrate.undofolder import UndoFolder
from kafkawire.kernels import cache_folder
from kafkawire.model import TopicPartition
from mirrormaker.control.keptfile import KeptFile
from mirrormaker.control.place import make_folder, own_place
from mirrormaker.limits import Pause
from mirrormaker.offsetmap.file import FileStorage
from sparkpipeline.ledger.local import LocalFiles
from tests.security.test_source import parsed
from zkconsumer.offsetmap.records import Begun, Entry
from zkconsumer.offsetmap.text import Header
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.session.lease import Lease

TP = TopicPartition("orders", 3)


@pytest.fixture(params=[0, 0o022], ids=["umask 000", "umask 022"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Of everything below a folder, as ls would show it in octal."""
    return {
        path.relative_to(folder).as_posix(): f"{stat.S_IMODE(path.lstat().st_mode):04o}" for path in folder.rglob("*")
    }


def test_what_a_consumer_keeps_is_its_own(umask: int, tmp_path: Path) -> None:
    lease = Lease()
    lease.beat_answered(clocks.moment(), 600)
    offsets = FileOffsets(tmp_path / "offsets.json")
    for position in (5, 6):
        assert offsets.commit("g", {TP: position}, lease) == {TP: None}
    assert modes(tmp_path) == {"offsets.json": "0600", "offsets.json.lock": "0600"}


def test_limits_of_a_mirror_are_its_own_and_its_offset_map_is_read_by_others(umask: int, tmp_path: Path) -> None:
    kept = KeptFile(tmp_path, {"dc1": "g"})
    kept.write([Pause(source="dc1", topic="orders", kept=True)])
    kept.write([])
    storage = FileStorage(tmp_path / "dc1.offsetmap", Header("dc1", "g"), 1 << 20)
    storage.append([Begun(TP, 5, 7, True, 9, "orders"), *(Entry(TP, TP, n, n, n) for n in range(5, 900))])
    storage.cut(lambda: None)
    storage.close()
    assert modes(tmp_path) == {"limits.json": "0600", "dc1.offsetmap": "0644", "dc1.offsetmap.lock": "0600"}


def test_undo_files_are_the_operator_s(umask: int, tmp_path: Path) -> None:
    folder = UndoFolder(tmp_path / "made" / "plan.undo")
    assert folder.keep("g", StepName.COPY, read_offsets("/consumers/g/offsets/orders/0:17\n")) is not None
    assert modes(tmp_path) == {"made": "0700", "made/plan.undo": "0700", "made/plan.undo/g.copy.json": "0600"}
    _kept(tmp_path, "undo-g", "{}")
    assert modes(tmp_path)["undo-g.json"] == "0600"


def test_journals_and_plans_are_read_by_others(umask: int, tmp_path: Path) -> None:
    keep(tmp_path / "plan.json", "{}", "the plan")
    with open_journal(tmp_path / "plan.journal.jsonl", JournalHeader("p", "zk", "kafka", 5)) as journal:
        journal.append([Reached("g", None, Phase.PLANNED)], 6)
    assert modes(tmp_path) == {"plan.json": "0644", "plan.journal.jsonl": "0644"}


def test_the_control_socket_and_its_folder_are_the_user_s(
    umask: int, tmp_path: Path, tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = own_place("orders", "", {})
    assert path is not None
    make_folder(path, {})
    server = LineServer(tasks, lambda line: [line])
    server.start(path)
    folder = path.parent.name
    made = {"orders.sock": "0600", "orders.sock.lock": "0600"}
    assert modes(tmp_path) == {folder: "0700", **{f"{folder}/{name}": mode for name, mode in made.items()}}
    server.close()


def test_what_is_run_is_kept_where_no_other_user_writes(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Compiled loops: what lies in their folder is loaded as code."""
    monkeypatch.setenv("KAFKAWIRE_CACHE", str(tmp_path / "deep" / "cache"))
    assert cache_folder() == tmp_path / "deep" / "cache"
    assert modes(tmp_path) == {"deep": "0700", "deep/cache": "0700"}
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    if (tmp_path / "deep").stat().st_uid:
        assert cache_folder() is None
        assert "it belongs to another user, and files in it are executed" in caplog.text


@pytest.mark.parametrize(("above", "own", "said"), [
    (0o755, 0o770, "a group may write to it"), (0o775, 0o700, "a group may write to {above}"),
    (0o777, 0o700, "anybody may write to {above}"), (0o1777, 0o777, "anybody may write to it"),
])  # fmt: skip
def test_what_is_run_is_not_taken_from_where_others_may_put_it(
    above: int, own: int, said: str, passable_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    folder = passable_path / "above" / "cache"
    folder.mkdir(parents=True)
    folder.chmod(own)
    folder.parent.chmod(above)
    monkeypatch.setenv("KAFKAWIRE_CACHE", str(folder))
    assert cache_folder() is None
    assert f"{said.format(above=folder.parent)}, and files in it are executed" in caplog.text


def test_a_warehouse_is_read_by_whom_the_site_lets(umask: int, tmp_path: Path) -> None:
    assert LocalFiles().create(str(tmp_path / "data" / "x.json"), b"{}")
    assert modes(tmp_path)["data/x.json"] == f"{0o666 & ~umask:04o}"


# ---- nothing else makes files --------------------------------------------------------------------------------------

# By file: how many calls make a file or folder there, and why their mode is right.
MAKES = {
    "groundwork/durable.py": 2,  # the modes above
    "groundwork/lineserver.py": 1,  # its lock: 0600
    "groupadmin/commands/dropin.py": 1,  # --output-file of an export: the umask's, as the original's
    "groupadmin/commands/migratebase.py": 1,  # /dev/stdout and its like, which exist
    "groupadmin/migrate/journal.py": 1,
    "mirrormaker/control/place.py": 1,
    "mirrormaker/offsetmap/file.py": 3,
    "mirrormaker/statefolder.py": 1,  # a file of tempfile: 0600, and gone
    "sparkpipeline/commands/common.py": 1,  # a summary that the operator names: the umask's
    "sparkpipeline/commands/pyfiles.py": 1,  # 0644: executors run as others
    "sparkpipeline/ledger/local.py": 3,  # the warehouse: the umask's
    "zkconsumer/offsets/file.py": 1,
}
WRITES = {"write_text", "write_bytes", "mkdir", "makedirs", "mkstemp", "mkdtemp", "NamedTemporaryFile", "touch"}


def made_in(module: ast.Module) -> int:
    found = 0
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        text = ast.unparse(node)
        if name == "os.open":
            found += "O_CREAT" in text
        elif name == "open" or name.endswith(".open"):
            mode = [one.value for one in (*node.args, *(word.value for word in node.keywords)) if _is_mode(one)]
            found += any(set(str(one)) & set("wax") for one in mode) and "devnull" not in text
        else:
            found += name.rpartition(".")[2] in WRITES
    return found


def _is_mode(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) <= 3


def test_no_other_file_is_made() -> None:
    """localkafka is left out: clusters of tests in folders of their own."""
    found = {where: count for where, module in parsed("open(", *WRITES) if (count := made_in(module))}
    assert {where: count for where, count in found.items() if not where.startswith("localkafka/")} == MAKES
