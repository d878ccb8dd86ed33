"""The real ZkSession (heartbeat, lease, fence) on a simulated client."""

from __future__ import annotations

from tests.simulation.process import Process
from tests.simulation.zookeeper.client import SimClient
from tests.simulation.zookeeper.ensemble import SimZookeeper
from tests.simulation.zookeeper.link import Link
from zkconsumer.session.zksession import ZkSession, _Connection


class SimSession(ZkSession):
    """begin() in the place of start(): it has no address to connect to."""

    def begin(self, process: Process, zookeeper: SimZookeeper, link: Link) -> SimClient:
        client = self._client = SimClient(process, zookeeper, link)
        client._connection = _Connection(client, client._conn_retry)
        self._handler = client.handler
        client.add_listener(self._kazoo_state)
        client.start_async()
        self._tasks.spawn("zookeeper-heartbeat", self._beat)
        self._tasks.spawn("zookeeper-fence", self._guard)
        return client
