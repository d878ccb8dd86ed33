"""What options must not say to brokers of a release that lacks what they need.  Pure.

Kafka 0.7: brokers tell nothing of each other, partitions belong to brokers, offsets are bytes, groups are in ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.dialects import Dialect, dialect
from sparkpipeline.errors import OptionRefused

if TYPE_CHECKING:
    from sparkpipeline.source.options import SourceOptions

AUTO = "auto"
BROKERS = "kafka.broker.list"
_COUNTED = {  # options that count messages by their offsets, and what does so by bytes
    "maxOffsetsPerTrigger": "maxBytesPerTrigger",
    "minOffsetsPerTrigger": "the trigger's own interval",
    "maxRecordsPerPartition": "maxBytesPerPartition",
}


def check_release(options: SourceOptions, given: frozenset[str]) -> None:
    """Raises OptionRefused.  Of protocol=auto nothing is known yet: who asks for it has brokers that can be asked."""
    spoken = None if options.protocol == AUTO else dialect(options.protocol)
    if spoken is not None and not spoken.describes_itself:
        _check_brokers(options, spoken)
    elif options.brokers:
        raise OptionRefused("is for brokers of Kafka 0.7: say protocol=0.7, or kafka.bootstrap.servers", option=BROKERS)
    if spoken is None:
        return
    if not spoken.offsets.count_messages:
        for name in sorted(given & _COUNTED.keys()):
            raise OptionRefused(
                f"counts messages, and offsets of Kafka {spoken.release} are bytes: use {_COUNTED[name]}", option=name
            )
    if not spoken.keeps_offsets and options.group_id is not None and options.zookeeper_connect is None:
        raise OptionRefused(
            f"groups of Kafka {spoken.release} keep their offsets in ZooKeeper: give zookeeper.connect",
            option="kafka.group.id",
        )
    if not spoken.keeps_offsets and options.offsets_storage in ("kafka", "dual"):
        raise OptionRefused(
            f"brokers of Kafka {spoken.release} keep no offsets: only ZooKeeper has them",
            option="kafka.offsets.storage",
        )


def _check_brokers(options: SourceOptions, spoken: Dialect) -> None:
    what = f"brokers of Kafka {spoken.release} tell nothing of each other"
    if options.bootstrap:
        raise OptionRefused(f"{what}: zookeeper.connect finds them", option="kafka.bootstrap.servers")
    if not options.brokers and options.zookeeper_connect is None:
        raise OptionRefused(f"is needed: {what}", option="zookeeper.connect")
    if options.brokers and options.zookeeper_connect is not None:
        raise OptionRefused("goes without zookeeper.connect, which finds the brokers", option=BROKERS)
    if options.brokers and options.assign is None and options.offset_ranges is None:
        raise OptionRefused(
            "says which brokers there are, not which partitions they have: name those in assign or offsetRanges, or"
            " give zookeeper.connect instead",
            option=BROKERS,
        )
