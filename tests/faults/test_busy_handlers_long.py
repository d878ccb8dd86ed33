"""Handlers that are busy for many sessions."""

from __future__ import annotations

import pytest

from tests.integration.laps import beside_a_busy_handler, fill

pytestmark = [pytest.mark.real, pytest.mark.faults]
SESSION_MS = 6000


def test_a_handler_that_blocks_for_a_minute_costs_neither_the_session_nor_the_rate_of_the_others(source, unique):
    topic = unique.topic()
    end = fill(source, topic)
    told = beside_a_busy_handler(source, unique.group(), topic, end, SESSION_MS, "blocks", "messages", 60)
    print(f"other stream: {told['quiet']:,.0f} messages/s, beside the handler that blocks {told['beside']:,.0f}")
    assert told["states"] == ["connected"], told
    assert told["offsets"] == [0, 1]
    assert told["beside"] >= told["quiet"] / 2, told


@pytest.mark.parametrize("read", ["messages", "batches", "sets"])
def test_a_handler_that_computes_leaves_the_others_half_their_rate_however_they_read(source, unique, read):
    topic = unique.topic()
    end = fill(source, topic)
    told = beside_a_busy_handler(source, unique.group(), topic, end, SESSION_MS, "computes", read, 20)
    print(f"other stream, {read}: {told['quiet']:,.0f} messages/s, beside the busy handler {told['beside']:,.0f}")
    assert told["states"] == ["connected"], told
    assert told["beside"] >= told["quiet"] / 2, told
