"""Producer ids: what is said of brokers that give out none yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkawire.cluster.retry import Backoff
from kafkawire.dialects import dialect
from kafkawire.model import Broker, ProducerId
from kafkawire.protocol.transactionrequests import Initialized
from producer import producerids
from producer.producerids import SOON, ProducerIds

GIVEN = Initialized(0, ProducerId(7, 0))


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([14, 15], []),
        ([14] * (SOON + 3), ["CoordinatorLoadInProgress (14)"]),
        ([14, 53, 53], ["TransactionalIdAuthorizationFailed (53)"]),
    ],
)
def test_a_coordinator_that_begins_is_said_only_if_it_lasts(
    codes: list[int], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producerids, "BACKOFF", Backoff(0.001, 0.001))
    answers = [*(Initialized(code, ProducerId(-1, -1)) for code in codes), GIVEN]
    events: list[str] = []
    renewed: list[ProducerId] = []
    ids = ProducerIds(
        cast("Any", SimpleNamespace(renew=renewed.append)),
        cast("Any", SimpleNamespace(call=lambda *_: answers.pop(0), answering_first=list)),
        dialect("2.8"),
        view=lambda: cast("Any", SimpleNamespace(brokers={0: Broker(0, "here", 9092)})),
        required=True,
        events=lambda level, text: events.append(text),
        renewed=lambda: ids.close(),
    )
    ids.want()
    ids.run()
    assert renewed == [GIVEN.producer]
    assert len(events) == len(said)
    for text, expected in zip(events, said, strict=True):
        assert text.startswith("no producer id for idempotent batches: InitProducerId on ")
        assert expected in text
