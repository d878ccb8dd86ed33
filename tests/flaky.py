"""Plugin of pytest that runs failed tests once more, each alone: `-p tests.flaky --flaky FILE`.

    a failed test passes the second time   it is flaky: the last lines say so, the run is green
    a failed test fails the second time    the run is red
    more than MAX_FLAKY tests failed            none is run again, the run is red

The second time is at the end of the run, in one process for each test, with the options and environment of the run: it
starts clusters of its own.  A test whose worker died or hung has failed.  Nothing else is repeated, so it stays red:
errors of fixtures and of collection, a run that was interrupted or did not reach its end.

A run may have several parts, each a pytest of its own.  They append their flaky tests to FILE, share MAX_FLAKY, and
each repeats the lines of those before.  Who begins a run removes FILE.  tests/flaky.md lists the known flaky tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

MAX_FLAKY = 3  # failed tests of a run that may be flaky; more of them are a machine or a change that breaks tests


@dataclass(frozen=True, slots=True)
class Flaky:
    """Test that failed and then passed alone, and the first line of its failure."""

    name: str
    cause: str

    def __str__(self) -> str:
        return f"FLAKY: {self.name} - {self.cause}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--flaky",
        metavar="FILE",
        help="run failed tests once more, each alone, at the end; FILE keeps the flaky ones of a run of several parts",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--flaky") and not hasattr(config, "workerinput"):
        kept = config.invocation_params.dir / config.getoption("--flaky")
        config.pluginmanager.register(Rerun(config, kept))


class Rerun:
    """Failed tests of this pytest, run again after the last test and before the run has its exit code."""

    def __init__(self, config: pytest.Config, kept: Path) -> None:
        self._config = config
        self._kept = kept
        self._environment = dict(os.environ)  # as the run found it: tests in this process may change it
        self._collected: set[str] = set()
        self._reported: set[str] = set()
        self._failed: dict[str, list[pytest.TestReport]] = {}
        self._flaky: list[Flaky] = []
        self._before = _read(kept)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected.update(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected.update(item.nodeid for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)
        if report.failed and report.when not in ("setup", "teardown"):  # xdist reports a worker's death as neither
            self._failed.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield  # raises when the run is interrupted, or stopped by -x
        only_tests = session.testsfailed == sum(map(len, self._failed.values()))  # and no fixture or collection
        if self._failed and only_tests and self._collected <= self._reported:
            self._run_again()
            if len(self._flaky) == len(self._failed):
                session.testsfailed = 0  # which the exit code is made of
        return result

    def _run_again(self) -> None:
        count = len(self._before) + len(self._failed)
        if count > MAX_FLAKY:
            print(f"\n\n{count} tests of this run failed: more than {MAX_FLAKY} are not run again", flush=True)
            return
        for name, reports in self._failed.items():
            print(f"\n\nrunning {name} again, alone", flush=True)
            if self._passes(name):
                self._flaky.append(Flaky(name, _cause(reports[0])))
        with self._kept.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(each)) + "\n" for each in self._flaky)

    def _passes(self, name: str) -> bool:
        """Run one test in a process of its own; true if it passed, and was not skipped."""
        params = self._config.invocation_params
        options = [each for each in params.args if each not in self._config.option.file_or_dir]
        test = f"{self._config.rootpath}{os.sep}{name}"
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "result.xml")
            again = ["-n", "0", "--flaky", "", "--junitxml", str(result), test]
            command = [sys.executable, "-m", "pytest", *map(str, options), *again]
            if subprocess.run(command, cwd=params.dir, env=self._environment, check=False).returncode:
                return False
            suite = ElementTree.parse(result).getroot().find("testsuite")
            return suite is not None and (suite.get("tests"), suite.get("skipped")) == ("1", "0")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("flaky", "", "") if getattr(report, "flaky", False) else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        """Count each flaky test as flaky instead of failed, show its failure, and name it in the last lines."""
        stats, names = terminalreporter.stats, {each.name for each in self._flaky}
        failed = [report for report in stats.pop("failed", []) if report.nodeid not in names]
        if failed:
            stats["failed"] = failed
        for each in self._flaky:
            terminalreporter.section(f"{each.name} failed once")
            for report in self._failed[each.name]:
                terminalreporter.write_line(report.longreprtext)
                for title, text in report.sections:
                    terminalreporter.write_sep("-", title)
                    terminalreporter.write_line(text)
            location = self._failed[each.name][0].location
            passed = pytest.TestReport(each.name, location, {}, "passed", None, "call", flaky=True)
            self._config.hook.pytest_runtest_logreport(report=passed)
        yield
        for each in (*self._before, *self._flaky):
            terminalreporter.write_line(str(each))


def _read(kept: Path) -> list[Flaky]:
    """Flaky tests of the parts before; none before the first part has any."""
    if not kept.exists():
        return []
    return [Flaky(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]


def _cause(report: pytest.TestReport) -> str:
    """First line of what a failure says."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
