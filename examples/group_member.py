"""Group member: reads a topic beside the other members of its group, those of the JVM (0.7, 0.8) among them.

    python examples/group_member.py zk1:2181/kafka orders billing

Start it several times, or beside kafka-console-consumer.sh with group.id=billing: each partition has one reader, and
when a member leaves, the others read its partitions on from its last commit.  Ctrl-C or SIGTERM commits and leaves.
"""

import signal
import sys
from collections.abc import Mapping, Sequence

from zkconsumer import ConsumerConnector, ConsumerError, ConsumerListener, TopicPartition


class Assignment(ConsumerListener):
    """Shows on stderr what this member reads."""

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> None:
        print("assigned", *sorted(map(str, assignment)), file=sys.stderr)

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        print("revoked", *map(str, partitions), file=sys.stderr)


if len(sys.argv) != 4:
    sys.exit(__doc__)
zookeeper, topic, group = sys.argv[1:]
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: sys.exit())  # leaves the with block, which stops the member
options = {
    "zookeeper.connect": zookeeper,
    "group.id": group,
    "auto.offset.reset": "smallest",  # where a partition begins that the group never committed
}
try:
    with ConsumerConnector(options, listener=Assignment()) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        for message in stream:  # asking for the next message marks this one as done
            print(message.partition, message.offset, message.value, flush=True)
except ConsumerError as why:  # ZooKeeper is unreachable, has no such chroot, or knows no broker
    sys.exit(f"group {group}: {why}")
