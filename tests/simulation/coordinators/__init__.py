"""Coordinators of groups, offsets and transactions on simulated brokers, release by release.

    coordination = Coordination(cluster)     they answer FindCoordinator, OffsetCommit, JoinGroup, InitProducerId, ...
    coordination.hand                        what a schedule does to them: slow loads, loads that fail, races
    coordination.node(broker)                the coordinators of one broker, as long as its process lives

    rules.py          Rules: which release does what, all in one place
    coordination.py   Coordination: the coordinators of a cluster, registered with its brokers
    host.py           Host: what coordinators ask of their broker
    finding.py        FindCoordinator, internal topics
    shards.py         partitions of __consumer_offsets: taken over, loaded, given up
    background.py     the thread that loads, unloads and expires
    groups.py         a group in memory
    membership.py     JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups
    offsets.py        offsets of a group in memory
    commits.py        OffsetCommit, OffsetFetch, TxnOffsetCommit, retention
    writes.py         appends that wait for replicas (the new coordinator)
    transactions.py   InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, markers
    records.py        records of the two internal topics, as bytes

State lives in the replicas' logs: what a coordinator knows after a failover is what its own replica has.
Sections named in docstrings are those of shared/reference/broker-model-coordinators.md.
"""

from tests.simulation.coordinators.coordination import Coordination as Coordination
