"""Of which generation brokers are, by their nodes."""

from __future__ import annotations

import pytest

from kafkawire.cluster.registered import partitions_by_broker

SEVEN = b"10.0.0.5-1315436360737:10.0.0.5:9092"
EIGHT = b'{"jmx_port":-1,"timestamp":"1386000000000","host":"h","version":1,"port":9092}'
OLD_EIGHT = b'{ "host":"h", "jmx_port":-1, "port":9092, "version":1 }'


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([SEVEN, SEVEN], True),
        ([EIGHT, OLD_EIGHT], False),
        ([], None),
        ([b"", b"nonsense"], None),
        ([SEVEN, EIGHT], None),
        ([b"", SEVEN], True),
    ],
)
def test_brokers_show_their_generation(nodes: list[bytes], found: bool | None) -> None:
    assert partitions_by_broker(nodes) is found
