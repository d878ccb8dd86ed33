"""The coordinators of all brokers of one cluster, registered as handlers of their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkawire.protocol import apis, groupapis, transactionapis
from kafkawire.protocol.groupapis import OF_GROUP, OF_TRANSACTION
from tests.simulation.coordinators.background import Background
from tests.simulation.coordinators.commits import Commits
from tests.simulation.coordinators.finding import Finding
from tests.simulation.coordinators.host import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Hand, Host
from tests.simulation.coordinators.membership import Membership
from tests.simulation.coordinators.records import TRANSACTIONAL, TopicPartition, producer_of
from tests.simulation.coordinators.rules import Codes, Rules
from tests.simulation.coordinators.shards import Shards
from tests.simulation.coordinators.stablefetch import OFFSET_FETCH_TO_V7
from tests.simulation.coordinators.transactions import Markers, Transactions

NEARBY_S = 0.0005
_PASSING = (Codes.LOADING, Codes.NOT_AVAILABLE, Codes.NOT_COORDINATOR, Codes.CONCURRENT)

Done = Callable[[int], object]


class Node:
    """The coordinators of one broker, as long as its process lives."""

    def __init__(self, coordination: Coordination, broker: Any) -> None:
        rules = coordination.rules
        self.host = host = Host(broker, rules, coordination.hand)
        self.background = Background(host.after, rules.one_background_thread)
        self.shards = Shards(host, self.background)
        self.membership = Membership(host, self.shards)
        self.commits = Commits(host, self.shards, self.membership, lambda *asked: coordination.verify(broker, *asked))
        self.transactions = Transactions(
            host, coordination.next_producer_id, lambda *sent: coordination.write_marker(host, *sent)
        )
        numbers = {OF_GROUP: self.shards.number, OF_TRANSACTION: self.transactions.number}
        self.finding = Finding(host, numbers)


class Asked:
    """A request from one broker to another that is not answered."""

    __slots__ = ("done", "life", "sender", "to")

    def __init__(self, sender: Any, to: int, done: Done) -> None:
        self.sender = sender
        self.life = sender.life
        self.to = to
        self.done = done

    def answered(self, code: int) -> None:
        if self.sender.life == self.life:
            self.done(code)


class Coordination:
    """cluster: a SimCluster.  nodes: by broker.  hand: what a schedule does to them."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.rules = rules = Rules(cluster.rules.release)
        self.hand = Hand()
        self.nodes: dict[int, Node] = {}
        self._producer_ids = 0
        self._asked: dict[Asked, None] = {}
        handlers: dict[int, Callable[[Node], Callable[[Any], object]]] = {}
        if rules.zookeeper_offsets or rules.keeps_offsets:
            handlers[groupapis.OFFSET_COMMIT.key] = lambda node: node.commits.commit
            handlers[groupapis.OFFSET_FETCH.key] = lambda node: node.commits.fetch
        if rules.keeps_offsets:
            handlers[groupapis.GROUP_COORDINATOR.key] = lambda node: node.finding.find
        if rules.coordinates_groups:
            handlers |= {
                apis.JOIN_GROUP.key: lambda node: node.membership.join,
                apis.SYNC_GROUP.key: lambda node: node.membership.sync,
                apis.HEARTBEAT.key: lambda node: node.membership.heartbeat,
                apis.LEAVE_GROUP.key: lambda node: node.membership.leave,
                apis.DESCRIBE_GROUPS.key: lambda node: node.membership.describe,
                apis.LIST_GROUPS.key: lambda node: node.membership.list_groups,
            }
        if rules.has_transactions:
            handlers |= {
                transactionapis.INIT_PRODUCER_ID.key: lambda node: node.transactions.initialize,
                transactionapis.ADD_PARTITIONS_TO_TXN.key: lambda node: node.transactions.add_partitions,
                transactionapis.ADD_OFFSETS_TO_TXN.key: lambda node: node.transactions.add_offsets,
                transactionapis.END_TXN.key: lambda node: node.transactions.end,
                transactionapis.TXN_OFFSET_COMMIT.key: lambda node: node.commits.commit_transactional,
            }
        cluster.apis[OFFSET_FETCH_TO_V7.key] = OFFSET_FETCH_TO_V7
        for key, chosen in handlers.items():
            cluster.handlers[key] = self._serving(chosen)
        for broker in cluster.brokers.values():
            broker.on_leadership.append(self._hearing(broker))
            broker.on_deleted.append(self._forgetting(broker))
        cluster.on_death.append(self._hung_up)
        cluster.verifies = self.verify_produce

    def node(self, broker: Any) -> Node:
        found = self.nodes.get(broker.id)
        if found is None or found.host.dead:
            found = self.nodes[broker.id] = Node(self, broker)
        return found

    def next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids - 1

    def _serving(self, chosen: Callable[[Node], Callable[[Any], object]]) -> Callable[[Any, Any], None]:
        def serve(broker: Any, request: Any) -> None:
            chosen(self.node(broker))(request)

        return serve

    def _hearing(self, broker: Any) -> Callable[[TopicPartition, bool, int], None]:
        def hear(tp: TopicPartition, leads: bool, epoch: int) -> None:
            if not broker.up or tp[0] not in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
                return
            node = self.node(broker)
            shards = node.shards if tp[0] == OFFSETS_TOPIC else node.transactions
            (shards.elected if leads else shards.resigned)(tp[1], epoch)

        return hear

    def _forgetting(self, broker: Any) -> Callable[[str], None]:
        return lambda topic: self.node(broker).commits.topic_deleted(topic)

    # between brokers -----------------------------------------------------------------------------------------------

    def _ask(self, sender: Any, to: int, carry_out: Callable[[Any, Done], object], done: Done) -> None:
        """Ask another broker; done(code), -1: it could not be reached.  No answer is possible, too."""
        asked = Asked(sender, to, done)
        if to == sender.id:
            sender.after(NEARBY_S, carry_out, sender, asked.answered)
            return
        self._asked[asked] = None

        def answer(other: Any, code: int) -> None:
            self.cluster.between(other, sender.id, lambda _: self._answered(asked, code))

        def arrive(other: Any) -> None:
            carry_out(other, lambda code: answer(other, code))

        self.cluster.between(sender, to, arrive, self._answered, asked, -1)

    def _answered(self, asked: Asked, code: int) -> None:
        if asked in self._asked:
            del self._asked[asked]
            asked.answered(code)

    def _hung_up(self, gone: Any) -> None:
        """Requests to a broker whose process is gone fail; its own are forgotten."""
        for asked in list(self._asked):
            if asked.sender is gone:
                del self._asked[asked]
            elif asked.to == gone.id:
                asked.sender.after(NEARBY_S, self._answered, asked, -1)

    def write_marker(self, host: Host, leader: int, tp: TopicPartition, markers: Markers, done: Done) -> None:
        """Append a marker at the leader of a partition; the end of offsets follows on that broker (2.6)."""
        producer_id, epoch, committed = markers.producer_id, markers.epoch, markers.committed

        def carry_out(broker: Any, answer: Done) -> None:
            def appended(code: int) -> None:
                if not code and tp[0] == OFFSETS_TOPIC:
                    self.node(broker).commits.transaction_ended(tp[1], producer_id, committed)
                answer(code)

            broker.append_marker(tp, producer_id, epoch, markers.shard.epoch, committed, appended)

        self._ask(host.broker, leader, carry_out, done)

    def verify(self, broker: Any, name: str, producer_id: int, epoch: int, tp: TopicPartition, done: Done) -> None:
        """Ask the coordinator of an id whether a partition is in its open transaction; -1: the network failed."""
        node = self.node(broker)
        coordinator = node.host.leader((TRANSACTIONS_TOPIC, node.transactions.number(name)))
        if coordinator is None:
            done(Codes.NOT_AVAILABLE)
            return

        def carry_out(other: Any, answer: Done) -> None:
            answer(self.node(other).transactions.verify(name, producer_id, epoch, tp))

        self._ask(broker, coordinator, carry_out, done)

    def verify_produce(
        self, broker: Any, request: Any, writes: list[tuple[TopicPartition, Any]], sets: dict[TopicPartition, bytes]
    ) -> tuple[list[tuple[TopicPartition, Any]], list[tuple[TopicPartition, int]]]:
        """Ask whether each partition is in the transaction, at its first batch there (4.6).

        Returns the writes that may go on, and the codes of the others: 19 for all that passes.  It takes no time.
        """
        name: str | None = request.body.get("transactional_id")
        if name is None or not self.rules.verifies_produce:
            return writes, []
        allowed, refused = [], []
        for tp, write in writes:
            code = 0 if self._is_open(broker, tp, sets[tp]) else self._verified(broker, name, tp, sets[tp])
            if code:
                refused.append((tp, code))
            else:
                allowed.append((tp, write))
        return allowed, refused

    @staticmethod
    def _is_open(broker: Any, tp: TopicPartition, data: bytes) -> bool:
        """Whether the producer has a transaction open at this partition, or its batch is no part of one."""
        attributes, producer_id, epoch = producer_of(data)
        replica = broker.replicas.get(tp)
        known = None if replica is None else replica.log.producers.by_id.get(producer_id)
        opened = known is not None and known.epoch == epoch and known.open_at is not None
        return not attributes & TRANSACTIONAL or opened

    def _verified(self, broker: Any, name: str, tp: TopicPartition, data: bytes) -> int:
        _, producer_id, epoch = producer_of(data)
        node = self.node(broker)
        at = node.host.leader((TRANSACTIONS_TOPIC, node.transactions.number(name)))
        other = None if at is None else self.cluster.brokers[at]
        if (
            other is None
            or not other.up
            or other.frozen
            or (other is not broker and (other.isolated or broker.isolated))
        ):
            return Codes.NOT_ENOUGH_REPLICAS
        code = self.node(other).transactions.verify(name, producer_id, epoch, tp)
        if code in _PASSING:
            return Codes.NOT_ENOUGH_REPLICAS
        return Codes.INVALID_EPOCH if code == Codes.PRODUCER_FENCED else code
