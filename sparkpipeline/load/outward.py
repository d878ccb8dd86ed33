"""Positions copied to a consumer group, for the tools that show lag.  Informational: the loader never reads them back.

They may be a batch behind after a crash, and are whole each time.  A group that somebody consumes with is left alone.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkpipeline.load.cluster import Cluster
from sparkpipeline.load.options import LoadConfig
from sparkpipeline.load.plan import Positions, in_order
from sparkpipeline.positions import write_group
from sparkpipeline.zookeeper import group_owners

SHOWN = 3  # partitions named one by one


def copy(config: LoadConfig, cluster: Cluster, positions: Positions, tell: Callable[[str], None]) -> int:
    """Write all positions to the job's group; how many are known to be written.  What is not is told.

    Raises Unreachable, OptionRefused."""
    if config.group_id is None or not positions:
        return 0
    tps = in_order(positions)
    owned = group_owners(cluster.zk, config.group_id) if cluster.zk is not None else {}
    for tp in (tp for tp in tps if tp in owned):
        tell(
            f"group {config.group_id} is consumed with ({owned[tp]} owns {tp}): positions are not copied there;"
            " give the job a group of its own"
        )
        return 0
    results = write_group(config.group_id, positions, config.storage, cluster.access, cluster.zk)
    failed = {tp: why for tp in tps if (why := results.get(tp)) is not None}
    for tp, why in list(failed.items())[:SHOWN]:
        tell(f"group {config.group_id}: the position of {tp} is not known to be copied: {why}")
    if len(failed) > SHOWN:
        tell(f"group {config.group_id}: nor are those of {len(failed) - SHOWN} more partitions")
    return len(tps) - len(failed)
