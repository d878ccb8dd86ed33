"""The short sequences of the two broker models, each one text for real and for simulated brokers.

cluster.py      what a sequence asks of a cluster
sequence.py     what a sequence is, and the clusters that some of them share
client.py       requests of a sequence, by release; tables.py has those that kafkawire lacks
log.py, groups.py, transactions.py    the sequences
real.py         brokers of localkafka; kraft.py has several of them without ZooKeeper
simulated.py    those of tests.simulation.brokers and tests.simulation.coordinators
"""

from __future__ import annotations

from tests.simulation.sequences import groups, log, transactions
from tests.simulation.sequences.sequence import SEQUENCES

assert len({groups, log, transactions}) == 3  # they register what they have

ALL = SEQUENCES
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.1", "4.3.1")
