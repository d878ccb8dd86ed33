"""Brokers in virtual time: logs, replicas, leaders and what a client sees of them, release by release.

    cluster.py      SimCluster: the brokers of one cluster, the schedule's calls, the promises' view
    broker.py       SimBroker: replicas, metadata cache, handlers; alive, frozen or killed
    serving.py      connections, frames, requests
    releases.py     Rules: which release does what, all in one place
    entries.py      message formats: entries and batches of bytes; validated, renumbered, converted
    log.py          Log: entries, segments, high watermark, leader epochs, retention, compaction, truncation
    producers.py    state of idempotent and transactional producers in one log
    replica.py      Replica: one broker's copy of a partition, as leader and as follower
    fetchers.py     followers that copy logs
    controller.py   topics, elections, in-sync replicas, what brokers are told
    nodes.py        ZooKeeper's nodes of brokers and topics
    settings.py     what brokers and topics have set
    quotas.py       how long clients are held back
    produce.py, fetch.py, offsets.py, metadata.py, topics.py    handlers of the apis

Sections named in docstrings are those of shared/reference/broker-model-log.md ("2.3").
"""

from tests.simulation.brokers.broker import SimBroker as SimBroker
from tests.simulation.brokers.cluster import SimCluster as SimCluster
from tests.simulation.brokers.releases import Rules as Rules
from tests.simulation.brokers.serving import Peer as Peer
from tests.simulation.brokers.serving import Request as Request
from tests.simulation.brokers.serving import Wire as Wire
