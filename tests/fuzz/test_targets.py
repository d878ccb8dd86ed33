"""A short run of each target, the same inputs every time: `make fuzz` goes on with others."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from tests.fuzz.engine import Fuzzer
from tests.fuzz.targets import TARGETS

INPUTS = 1500
CPU_S, FEW_S = 0.6, 0.1  # of a target; 29 of them


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_documented_errors_comes_out(name: str, pytestconfig: pytest.Config) -> None:
    target = TARGETS[name]
    target.prepare()
    fuzzer, few = Fuzzer(target, seed=1), pytestconfig.getoption("--few-examples")
    for valid in fuzzer.corpus:
        fuzzer.check(valid)
    done = fuzzer.run(0, INPUTS, time.process_time() + (FEW_S if few else CPU_S))
    assert done > (0 if few else 20)
