"""What commands about positions must not take away: what goes on elsewhere, and what a file does not say."""

from __future__ import annotations

from kafkawire.v08.offsetrecords import OFFSETS_TOPIC
from tests.zkconsumer import test_offset_commands as commands
from tests.zkconsumer.test_offset_commands import Start

cluster = commands.cluster  # the fixture
G = "/consumers/g"
BOTH = {"t": 2, OFFSETS_TOPIC: 1}


def test_a_group_that_went_on_in_kafka_is_not_deleted_for_its_old_nodes(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.zk.nodes[f"{G}/offsets/t/0"].mtime -= 40 * 86_400_000
    c.f.kafka.committed[1, "g", "t", 0] = (90, "")
    args = ("delete", "-z", "zk", "--group", "g", "--inactive-for", "30d", "--execute")
    assert c.groups(*args) == 0
    assert (c.node(0), c.kafka(0)) == ("5", 90)
    assert "how old they are: left alone" in c.err
    assert not c.f.kafka.seen("offset_commit")
    assert c.groups(*args, "--storage", "zookeeper") == 0
    assert (c.node(0), c.kafka(0)) == (None, 90)
