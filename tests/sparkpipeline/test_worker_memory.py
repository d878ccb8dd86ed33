"""What Spark's workers keep from task to task: what is imported, out of the garbage collector's sight."""

from __future__ import annotations

import gc

import pytest

from sparkpipeline.source import readtasks


def test_what_is_imported_is_frozen_once_and_again_when_the_kernels_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    loaded = [False]
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(loaded[0]))
    monkeypatch.setattr(readtasks.kernels, "ready", lambda: object() if loaded[0] else None)
    worker = readtasks._Worker()
    for now in (False, False, True, True):
        loaded[0] = now
        worker.begin_task()
    assert frozen == [False, True]
    del frozen[:]
    readtasks._Worker().begin_task()
    assert frozen == [True]
