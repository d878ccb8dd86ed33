"""Which offset store a connector has: the one place that decides it."""

from __future__ import annotations

from groundwork.beside import Beside
from groundwork.options import OptionError
from kafkawire.dialects import Dialect
from kafkawire.net.links import Links
from zkconsumer.config import ConsumerConfig
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.offsets.threaded import ThreadedOffsets
from zkconsumer.offsets.zookeeper import ZookeeperOffsets
from zkconsumer.zksession import ZkSession


def store_of_group(config: ConsumerConfig, session: ZkSession, dialect: Dialect, links: Links) -> OffsetStore:
    """A member's store, by offsets.storage; links lead to the brokers of the cluster that is read."""
    return ZookeeperOffsets(session, dialect.znodes)


def store_of_fixed(config: ConsumerConfig, own: OffsetStore | None, beside: Beside) -> OffsetStore:
    """The store of fixed partitions: the program's own, or the file of offsets.file."""
    if own is not None:
        return ThreadedOffsets(own, beside)
    assert config.offsets_file is not None  # check_store
    return ThreadedOffsets(FileOffsets(config.offsets_file), beside)


def check_store(config: ConsumerConfig, own: OffsetStore | None, where: str) -> None:
    """Raises OptionError when there is no store for fixed partitions, or one too many."""
    if not config.partitions:
        problem = "offset_store is for fixed 'partitions': a group keeps its offsets where its other members look"
        wrong = own is not None
    elif own is None:
        problem = "fixed 'partitions' need a place for their positions: give 'offsets.file', or an offset_store"
        wrong = config.offsets_file is None
    else:
        problem = "'offsets.file' and an offset_store are both given; keep one of them"
        wrong = config.offsets_file is not None
    if wrong:
        raise OptionError([f"{where}: {problem}"])
