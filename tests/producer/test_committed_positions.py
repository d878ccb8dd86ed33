"""What a group of the target has committed, as its coordinator says it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.stableoffsets import StableOffset, StableOffsetFetch, StableOffsets
from producer.coordinators import Coordinators, Probe

BROKER = Broker(1, "h", 9092)
SPEAKS = dialect("1.1")


class Old(Coordinators):
    """Asks a broker before 2.5, of which only Kafka's own cache is asked.  error: of the whole answer."""

    def __init__(self, committed: dict[TopicPartition, int], error: int = 0) -> None:
        super().__init__(lambda: [BROKER], cast(Links, None), SPEAKS)
        self._all, self._error = committed, error

    def _coordinator(self, key: str, of_transaction: bool) -> Broker:
        return BROKER

    def _call(self, broker: Broker, request: Any, key: str) -> Any:
        if request.api.name == "ApiVersions":
            return {"api_versions": [(9, 0, 3)]}
        everything = SPEAKS.requests.offset_fetch(SPEAKS, key, None)
        assert request.buffers == everything.buffers, "only some partitions are asked for"
        rows = [
            {"topic": tp.topic, "partitions": [{"partition": tp.partition, "offset": at, "metadata": "", "error": 0}]}
            for tp, at in self._all.items()
        ]
        return {"topics": [] if self._error else rows, "error": self._error}


def test_an_older_broker_is_asked_for_the_offsets_of_topics_that_were_renamed_since() -> None:
    """Else the position of before a rename is not found, and all behind the group's commit is sent again."""
    former = TopicPartition("former", 0)
    found = Old({former: 7})._as_cached(BROKER, "g")
    assert found == {former: StableOffset(7, "", 0)}


def test_an_older_broker_that_answers_for_no_partition_why_it_cannot_is_heard() -> None:
    with pytest.raises(BrokerError, match="NotCoordinator"):
        Old({}, error=16)._as_cached(BROKER, "g")


class Dying(Coordinators):
    """Asks a coordinator of 4.0 that dies once it has said that nothing is pending, and then the next one, which shows
    the offset of before until it was asked with require_stable."""

    def __init__(self) -> None:
        super().__init__(lambda: [BROKER], cast(Links, None), dialect("4.0"))
        self.broker, self.shown = BROKER, 5

    def _ended(self, *asked: Any) -> bool:
        return True

    def _coordinator(self, key: str, of_transaction: bool) -> Broker:
        return self.broker

    def _call(self, broker: Broker, request: Any, key: str) -> Any:
        if isinstance(request, StableOffsetFetch):
            if broker != BROKER:
                self.shown = 9
            return StableOffsets(0, {request.tp: StableOffset(-1, "", 0)})
        if request.api.name == "ApiVersions":
            return {"api_versions": [(9, 1, 9)]}
        if broker == BROKER:
            self.broker = Broker(2, "h", 9093)
            raise LinkLost("it died")
        row = {"partition": 0, "offset": self.shown, "metadata": "", "error": 0}
        return {"topics": [{"topic": "t", "partitions": [row]}], "error": 0}


def test_a_position_is_read_where_it_was_asked_whether_anything_is_pending() -> None:
    """Else a coordinator that took over in between says an older one, and what was written since is sent again."""
    tp = TopicPartition("t", 0)
    transaction = cast(Any, SimpleNamespace(id="g"))
    found = Dying().positions(transaction, tp, Probe(tp, ""), lambda: True)
    assert found == {tp: StableOffset(9, "", 0)}
