"""Runs whose tests fail once or twice: which are green, and what their last lines say (tests/flaky.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parent.parent
ONE_PROCESS, WORKERS = ("-n", "0"), ("-n", "2", "--dist", "worksteal")

PASSES = """
def test_passes():
    pass
"""
ONCE = """
def test_fails_once():
    mark = Path(__file__).with_name("once")
    if not mark.exists():
        mark.touch()
        raise ValueError("the broker was slow\\nand a second line")
"""
TWICE = """
def test_fails_twice():
    assert 1 + 1 == 3
"""
FOUR = """
@pytest.mark.parametrize("number", range(4))
def test_four(number):
    mark = Path(__file__).with_name(f"four-{number}")
    if not mark.exists():
        mark.touch()
        raise ValueError
"""
DIES_ONCE = """
def test_dies_once():
    mark = Path(__file__).with_name("died")
    if not mark.exists():
        mark.touch()
        os._exit(9)
"""
HANGS_ONCE = """
def test_hangs_once():
    mark = Path(__file__).with_name("hung")
    if not mark.exists():
        mark.touch()
        time.sleep(300)
"""
THEN_SKIPPED = """
def test_then_skipped():
    mark = Path(__file__).with_name("skipped")
    if mark.exists():
        pytest.skip("what it needs is gone")
    mark.touch()
    raise ValueError
"""
BAD_SETUP = """
@pytest.fixture
def bad():
    mark = Path(__file__).with_name("setup")
    if not mark.exists():
        mark.touch()
        raise ValueError("a fixture")
def test_of_a_bad_fixture(bad):
    pass
"""
BAD_TEARDOWN = BAD_SETUP.replace("bad():", "bad():\n    yield")


class Run:
    """Tests in a folder of their own, and the first part of a run of them, or a later one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder / "tests", folder / "kept"
        self.folder.mkdir()
        (self.folder / "pytest.ini").touch()

    def __call__(self, *args: str, **files: str) -> tuple[int, list[str]]:
        """The exit code and what it printed, without the duration at its end."""
        for name, text in files.items():
            imports = "import os, time, pytest\nfrom pathlib import Path\n"
            (self.folder / f"{name}.py").write_text(imports + text, encoding="utf-8")
        plugins = [word for name in ("xdist", "no:cacheprovider", "tests.flaky") for word in ("-p", name)]
        command = [sys.executable, "-m", "pytest", "-q", "-ra", *plugins, "--flaky", str(self.kept), *args]
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment = {**outside, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=self.folder, env=environment, timeout=120, check=False, **streams)
        return done.returncode, re.sub(r" in [\d.]+s.*$", "", done.stdout.rstrip()).splitlines()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.parametrize("how", [ONE_PROCESS, WORKERS])
def test_a_test_that_passes_alone_leaves_the_run_green_and_is_named_last_with_its_cause(
    run: Run, how: tuple[str, ...]
) -> None:
    code, said = run(*how, test_some=PASSES + ONCE)
    assert code == 0
    assert said[-2:] == [
        "FLAKY: test_some.py::test_fails_once - ValueError: the broker was slow",
        "1 passed, 1 flaky",
    ]
    assert not [line for line in said if line.startswith("FAILED")]
    assert "E           ValueError: the broker was slow" in said  # whoever mends it needs the whole of it


@pytest.mark.parametrize("how", [ONE_PROCESS, WORKERS])
def test_a_test_that_fails_twice_makes_the_run_red_whatever_passes_beside_it(run: Run, how: tuple[str, ...]) -> None:
    code, said = run(*how, test_some=PASSES + ONCE + TWICE)
    assert code == 1
    assert said[-3:] == [
        "FAILED test_some.py::test_fails_twice - assert (1 + 1) == 3",
        "FLAKY: test_some.py::test_fails_once - ValueError: the broker was slow",
        "1 failed, 1 passed, 1 flaky",
    ]


@pytest.mark.parametrize("how", [ONE_PROCESS, WORKERS])
def test_four_failed_tests_are_red_and_none_runs_again(run: Run, how: tuple[str, ...]) -> None:
    code, said = run(*how, test_some=PASSES + FOUR)
    assert code == 1
    assert "4 tests of this run failed: more than 3 are not run again" in said
    assert said[-1] == "4 failed, 1 passed"


def test_the_parts_of_a_run_share_what_may_be_flaky_and_the_last_names_all(run: Run) -> None:
    three = FOUR.replace("4", "3")
    code, said = run(*ONE_PROCESS, test_some=three)
    assert (code, said[-1]) == (0, "3 flaky")
    code, said = run(*ONE_PROCESS, "-k", "passes", test_some=PASSES)
    assert code == 0
    assert said[-4:] == [*(f"FLAKY: test_some.py::test_four[{n}] - ValueError" for n in range(3)), "1 passed"]
    code, said = run(*ONE_PROCESS, test_some=PASSES + ONCE)
    assert code == 1
    assert "4 tests of this run failed: more than 3 are not run again" in said
    assert said[-1] == "1 failed, 1 passed"


@pytest.mark.parametrize("dies", [DIES_ONCE, HANGS_ONCE])
def test_a_test_that_took_its_worker_along_has_failed_once(run: Run, dies: str) -> None:
    after = ("-o", "faulthandler_timeout=3", "-o", "faulthandler_exit_on_timeout=true")
    code, said = run(*WORKERS, *after, test_some=PASSES + dies)
    assert code == 0
    assert re.match(r"FLAKY: (test_some.py::test_\w+_once) - worker 'gw\d' crashed while running '\1'$", said[-2])
    assert said[-1] == "1 passed, 1 flaky"


def test_a_test_that_ends_the_only_process_ends_the_run_red(run: Run) -> None:
    assert run(*ONE_PROCESS, test_some=DIES_ONCE + PASSES)[0] == 9


@pytest.mark.parametrize("fixture", [BAD_SETUP, BAD_TEARDOWN])
def test_an_error_of_a_fixture_stays_red(run: Run, fixture: str) -> None:
    code, said = run(*ONE_PROCESS, test_some=PASSES + fixture + ONCE)
    assert code == 1
    assert re.fullmatch(r"1 failed, [12] passed, 1 error", said[-1])


def test_a_file_that_cannot_be_imported_stays_red(run: Run) -> None:
    for how in (ONE_PROCESS, WORKERS):
        code, said = run(
            *how, "--continue-on-collection-errors", test_some=ONCE, test_bad="import nothing_of_this_name"
        )
        assert code == 1
        assert "1 error" in said[-1]


@pytest.mark.parametrize("args", [("-x",), ("--max-worker-restart", "0")])
def test_a_run_that_did_not_reach_its_end_stays_red(run: Run, args: tuple[str, ...]) -> None:
    how = ONE_PROCESS if args == ("-x",) else ("-n", "1")
    code, said = run(*how, *args, test_some=(ONCE if args == ("-x",) else DIES_ONCE) + PASSES)
    assert code != 0
    assert "1 failed" in said[-1]


def test_a_run_without_tests_stays_red(run: Run) -> None:
    assert run(*ONE_PROCESS, "-k", "nothing", test_some=PASSES)[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_what_reddens_a_run_after_its_tests_keeps_it_red(run: Run) -> None:
    hook = "def pytest_sessionfinish(session):\n    session.exitstatus = 1\n"
    assert run(*ONE_PROCESS, test_some=PASSES + ONCE, conftest=hook)[0] == 1


def test_a_test_that_is_skipped_the_second_time_has_not_passed(run: Run) -> None:
    code, said = run(*ONE_PROCESS, test_some=PASSES + THEN_SKIPPED)
    assert (code, said[-1]) == (1, "1 failed, 1 passed")


def test_the_second_time_has_the_options_and_the_environment_of_the_run_and_no_other_tests(run: Run) -> None:
    sees = """
def test_other():
    assert not Path(__file__).with_name("left").exists()
def test_sees(request):
    left, first = Path(__file__).with_name("left"), "MARK" not in os.environ
    os.environ["MARK"] = "of the first time"
    if not left.exists():
        left.touch()
        raise ValueError
    assert first
    assert request.config.getoption("-m") == "not slow"
"""
    code, said = run(*ONE_PROCESS, "-m", "not slow", "test_some.py", test_some=sees)
    assert (code, said[-1]) == (0, "1 passed, 1 flaky")
