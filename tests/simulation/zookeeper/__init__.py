"""ZooKeeper in virtual time, to the rules Z1 to Z25 of the broker model.

ensemble   SimZookeeper: one server, or an ensemble of three; what is committed
quorum     who leads, what is proposed and committed, who is cut off
server     one server: its tree, its clients, the order of their requests
tree       nodes, and what a request makes of them
client     SimClient: kazoo's client on a simulated connection
session    SimSession: the real ZkSession on such a client
link       ways: Link between a client and ZooKeeper, Connection on it
"""

from tests.simulation.zookeeper.client import SESSION_S, SimClient, client_for
from tests.simulation.zookeeper.ensemble import SimZookeeper
from tests.simulation.zookeeper.link import Link
from tests.simulation.zookeeper.server import Server
from tests.simulation.zookeeper.session import SimSession

__all__ = ["SESSION_S", "Link", "Server", "SimClient", "SimSession", "SimZookeeper", "client_for"]
