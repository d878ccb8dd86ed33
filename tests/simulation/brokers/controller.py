"""The controller: topics and who leads them, and what it tells the brokers, each by a queue of its own.

With ZooKeeper it runs on one of the brokers and moves when that one's session ends; while nobody has it, nothing is
elected, created or deleted (5.3).  Without (KRaft) it is always there.  Sessions of brokers end some time after they
have fallen silent (killed, frozen or cut off).

What a broker is told (2.3): its roles and then the metadata; KRaft: the metadata and then the roles.  Each broker hears
it after a delay of its own, so any of them may know of a leader before that leader does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.brokers.metadata import Address
from tests.simulation.brokers.nodes import Nodes, Registry
from tests.simulation.brokers.replica import LeaderAndIsr, Tp
from tests.simulation.brokers.settings import OF_TOPIC

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker
    from tests.simulation.brokers.cluster import SimCluster

UNKNOWN, INVALID_TOPIC, EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_ASSIGNMENT = 3, 17, 36, 37, 38, 39
INVALID_CONFIG, DELETION_DISABLED = 40, 73
NO_LEADER = -1
TICK_S = 0.5
DELAY_S = (0.001, 0.01)
LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
LOOK_S = 0.1  # how often nodes that clients write are looked for


class PartitionState:
    """What is recorded of one partition (the state node, or the partition's record)."""

    __slots__ = ("epoch", "isr", "leader", "replicas", "version")

    def __init__(self, replicas: Sequence[int]) -> None:
        self.replicas = tuple(replicas)
        self.leader = NO_LEADER
        self.epoch = -1
        self.isr: tuple[int, ...] = ()
        self.version = -1

    def said(self) -> LeaderAndIsr:
        return LeaderAndIsr(self.leader, self.epoch, self.isr, self.version, self.replicas)


class Topic:
    __slots__ = ("configs", "deleting", "id", "left", "name", "partitions")

    def __init__(self, name: str, id: int, configs: Mapping[str, str]) -> None:
        self.name = name
        self.id = id
        self.configs = dict(configs)
        self.partitions: list[PartitionState] = []
        self.deleting = False
        self.left: dict[tuple[int, int], None] = {}  # replicas that are to be deleted: broker and partition


class Controller:
    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rules = cluster.rules
        self.settings = cluster.settings
        self.topics: dict[str, Topic] = {}
        self.broker = NO_LEADER  # on which it runs
        self.live: dict[int, int] = {}  # brokers with a session, and which of their lives it is
        self.creation_s = 0.05  # from a request to a topic that has leaders
        self.delays_s: dict[int, tuple[float, float]] = {}  # until a broker hears, where it is not DELAY_S
        self.instant = False  # everything is heard at once
        self._nodes = Registry(Nodes() if self.rules.kraft else cluster.zookeeper, self.rules.v08)
        self._queue_at: dict[int, float] = {}
        self._held: dict[int, list[tuple[int, Callable[..., object], tuple[Any, ...]]]] = {}
        self._silent: dict[int, float] = {}
        self._waiting: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._dirty: dict[Tp, None] = {}  # in-sync replicas that were changed by leaders
        self._ids = 0
        if self.settings.rebalances:
            cluster.timeline.after(self.settings.rebalance_check_s, self._rebalance)
        if not self.rules.kraft:
            cluster.timeline.after(LOOK_S, self._look_at_nodes)

    # ---- being there -------------------------------------------------------------------------------------------------

    def is_at(self, broker: SimBroker) -> bool:
        """Whether requests for the controller may go to this broker; KRaft forwards them."""
        return self.rules.kraft or broker.id == self.broker

    def _available(self) -> bool:
        if self.rules.kraft:
            return True
        broker = self.cluster.brokers.get(self.broker)
        return broker is not None and broker.up and not broker.frozen and not broker.isolated

    def act(self, fn: Callable[..., object], *args: Any) -> None:
        """Do it now, or as soon as there is a controller."""
        if self._available():
            fn(*args)
        else:
            self._waiting.append((fn, args))

    def _go_on(self) -> None:
        if self._available():
            waiting, self._waiting = self._waiting, []
            for fn, args in waiting:
                self.act(fn, *args)

    # ---- brokers come and go -----------------------------------------------------------------------------------------

    def started(self, broker: SimBroker) -> None:
        """A broker registers; a session that its former life left ends now."""
        if broker.id in self.live:
            self._expired(broker.id)
        self._register(broker)

    def _register(self, broker: SimBroker) -> None:
        self.live[broker.id] = broker.life
        self._silent.pop(broker.id, None)
        self._nodes.broker(broker.id, self.cluster.address(broker.id), self.cluster.now_ms())
        if not self.rules.kraft and self.broker == NO_LEADER:
            self._become(broker.id)
        self.act(self._came, broker.id)

    def _came(self, id: int) -> None:
        """A broker has a session: it is told its roles and everything; others that it lives (onBrokerStartup)."""
        if id not in self.live:
            return
        everything = self._everything()
        roles = {tp: said for tp, said in everything.items() if id in said.replicas}
        self._queue(id, roles, dict(everything), whole=True)
        for other in self.live:
            if other != id:
                self._queue(other, {}, {}, whole=False)
        changed = {}
        for topic in self.topics.values():
            for number, state in enumerate(topic.partitions):
                if (
                    not topic.deleting
                    and state.leader == NO_LEADER
                    and id in state.replicas
                    and self._elect(topic, state)
                ):
                    changed[topic.name, number] = state
        self._changed(changed)
        for topic in list(self.topics.values()):
            if topic.deleting:
                self._delete_replicas(topic, only=id)

    def fell_silent(self, broker: SimBroker) -> None:
        """Its session ends unless it is heard again in time."""
        now = self.cluster.timeline.now
        if broker.id in self.live and broker.id not in self._silent:
            self._silent[broker.id] = now
            share = 2 / 3 + self.cluster.rng.random() / 3
            wait_s = self.settings.session_s * share + TICK_S * self.cluster.rng.random()
            self.cluster.timeline.after(wait_s, self._silent_for, broker.id, now)

    def _silent_for(self, id: int, since: float) -> None:
        if self._silent.get(id) == since:
            self._expired(id)

    def heard_again(self, broker: SimBroker) -> None:
        """It is thawed, or no longer cut off: its session lives on, or it registers anew."""
        if broker.id in self.live:
            if broker.frozen or broker.isolated or not broker.up:
                return
            self._silent.pop(broker.id, None)
            held = self._held.pop(broker.id, [])
            for life, fn, args in held:
                self._deliver(broker.id, life, fn, args)
            self._go_on()
        elif broker.up and not broker.frozen and not broker.isolated:
            self.cluster.timeline.after(
                0.1 + 0.4 * self.cluster.rng.random(), self._register_again, broker, broker.life
            )

    def _register_again(self, broker: SimBroker, life: int) -> None:
        if broker.up and broker.life == life and broker.id not in self.live:
            if broker.frozen or broker.isolated:
                return
            self._register(broker)

    def _expired(self, id: int) -> None:
        """A broker's session has ended."""
        if self.live.pop(id, None) is None:
            return
        self._silent.pop(id, None)
        self._held.pop(id, None)
        self._nodes.no_broker(id)
        if id == self.broker and not self.rules.kraft:
            self.broker = NO_LEADER
            self._nodes.no_controller()
            self.cluster.timeline.after(0.05 + 0.2 * self.cluster.rng.random(), self._take_over)
        self.act(self._went, id)

    def left(self, broker: SimBroker) -> None:
        """It has closed its session (a clean stop)."""
        self._expired(broker.id)

    def _take_over(self) -> None:
        if self.broker != NO_LEADER:
            return
        for id in self.live:
            broker = self.cluster.brokers[id]
            if broker.up and not broker.frozen and not broker.isolated:
                self._become(id)
                return
        self.cluster.timeline.after(0.2, self._take_over)

    def _become(self, id: int) -> None:
        self.broker = id
        self._nodes.controller(id, self.cluster.now_ms())
        everything = self._everything()
        for other in self.live:
            self._queue(other, {}, dict(everything), whole=False)
        self._go_on()

    def _went(self, id: int) -> None:
        """A broker is gone: it leaves every ISR, and what it led gets another leader (2.2, 2.3)."""
        changed: dict[Tp, PartitionState] = {}
        for topic in self.topics.values():
            if topic.deleting:
                continue
            for number, state in enumerate(topic.partitions):
                if id not in state.isr and state.leader != id:
                    continue
                others = tuple(one for one in state.isr if one != id)
                if state.leader == id:
                    if not self._elect(topic, state, without=id):
                        state.leader = NO_LEADER
                        state.epoch += 1
                        if self.cluster.config(topic.name).unclean:
                            state.isr = ()
                elif others:
                    state.isr = others
                    state.epoch += 1
                else:
                    continue
                changed[topic.name, number] = state
        self._changed(changed, always=True)

    def _elect(self, topic: Topic, state: PartitionState, without: int = NO_LEADER) -> bool:
        """Give a partition a live leader: in sync, or if that is allowed any (2.3); False if there is none.

        without: a broker that is gone, though its next life may have registered already.
        """
        live = [one for one in state.replicas if one in self.live and one != without]
        clean = [one for one in live if one in state.isr]
        if state.epoch < 0:  # it never had one: no replica lived when it was made
            if not live:
                return False
            state.leader, state.isr, state.version = live[0], tuple(live), 0
        elif clean:
            state.leader = clean[0]
            state.isr = tuple(one for one in state.isr if one in live)
        elif live and self.cluster.config(topic.name).unclean:
            state.leader = live[0]
            state.isr = (live[0],)
            self.cluster.unclean_elections += 1
        else:
            return False
        state.epoch += 1
        return True

    # ---- leaders and in-sync replicas --------------------------------------------------------------------------------

    def move(self, tp: Tp, to: int) -> bool:
        """Make another in-sync replica the leader; False if it is not live and in sync."""
        state = self._state(tp)
        if state is None or to not in state.isr or to not in self.live or not self._available():
            return False
        if state.leader != to:
            state.leader = to
            state.epoch += 1
            self._changed({tp: state})
        return True

    def prefer(self, tp: Tp, to: int) -> None:
        """Make this replica the first of the assigned order."""
        topic = self.topics[tp[0]]
        state = topic.partitions[tp[1]]
        state.replicas = (to, *(one for one in state.replicas if one != to))
        self._put_topic(topic)

    def give_up(self, broker: SimBroker) -> float:
        """Controlled shutdown: move what a broker leads, one partition after the other; how long that takes."""
        wait_s = 0.0
        for topic in self.topics.values():
            for number, state in enumerate(topic.partitions):
                if broker.id in state.isr and len(state.replicas) > 1:
                    wait_s += 0.005 + 0.01 * self.cluster.rng.random()
                    self.cluster.timeline.after(wait_s, self.act, self._give_up, (topic.name, number), broker.id)
        return wait_s + 0.02

    def _give_up(self, tp: Tp, id: int) -> None:
        state = self._state(tp)
        if state is None or id not in state.isr:
            return
        others = tuple(one for one in state.isr if one != id and one in self.live)
        if not others:
            return
        if state.leader == id:
            state.leader = next(one for one in state.replicas if one in others)
        else:
            self._later(id, self._stop, id, tp, False, None)
        state.isr = others
        state.epoch += 1
        self._changed({tp: state})

    def _rebalance(self) -> None:
        """Move leaders to the first assigned replica where more than a tenth of a broker's are elsewhere."""
        self.cluster.timeline.after(self.settings.rebalance_check_s, self._rebalance)
        self.act(self._move_to_preferred)

    def _move_to_preferred(self) -> None:
        preferred: dict[int, list[Tp]] = {}
        elsewhere: dict[int, list[Tp]] = {}
        for topic in self.topics.values():
            for number, state in enumerate(topic.partitions):
                first = state.replicas[0]
                preferred.setdefault(first, []).append((topic.name, number))
                if state.leader != first:
                    elsewhere.setdefault(first, []).append((topic.name, number))
        for id, tps in elsewhere.items():
            if len(tps) * 10 > len(preferred[id]):
                for tp in tps:
                    self.move(tp, id)

    def write_isr(self, broker: SimBroker, tp: Tp, epoch: int, version: int, isr: tuple[int, ...]) -> int | None:
        """A leader writes its in-sync replicas to ZooKeeper: conditional on the node's version; None: refused."""
        state = self._state(tp)
        if broker.isolated or state is None or state.version != version or state.leader != broker.id:
            return None
        state.isr = isr
        state.version += 1
        self._nodes.state(tp, state.said())
        self._spread(tp)
        return state.version

    def alter_isr(
        self, broker: SimBroker, tp: Tp, epoch: int, version: int, isr: tuple[int, ...],
        done: Callable[[int, tuple[int, ...], int | None], object],
    ) -> None:  # fmt: skip
        """A leader asks the controller for other in-sync replicas until it is heard (AlterIsr)."""
        life, timeline = broker.life, self.cluster.timeline

        def ask() -> None:
            if broker.life != life or broker.leads(tp) != epoch:
                return
            if broker.isolated or not self._available():
                timeline.after(1.0, ask)
                return
            state, answer = self._state(tp), None
            fits = state is not None and (state.leader, state.epoch, state.version) == (broker.id, epoch, version)
            if state is not None and fits and all(one in self.live for one in isr if one not in state.isr):
                state.isr = isr
                state.version += 1
                answer = state.version
                self._nodes.state(tp, state.said())
                self._spread(tp)
            timeline.after(self._delay(), broker.run, done, epoch, isr, answer)

        timeline.after(self._delay(), ask)

    def _spread(self, tp: Tp) -> None:
        """Tell the brokers of changed in-sync replicas: KRaft at once, else some seconds later; 0.8 never."""
        if self.rules.v08:
            return
        if not self._dirty:
            wait_s = 0.0 if self.rules.kraft else 2.5 + 2.5 * self.cluster.rng.random()
            self.cluster.timeline.after(wait_s, self.act, self._spread_now)
        self._dirty[tp] = None

    def _spread_now(self) -> None:
        dirty, self._dirty = self._dirty, {}
        said = {tp: state.said() for tp in dirty if (state := self._state(tp)) is not None}
        for id in self.live:
            self._queue(id, {}, dict(said), whole=False)

    # ---- topics ------------------------------------------------------------------------------------------------------

    def auto_create(
        self,
        broker: SimBroker,
        topic: str,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str] = {},
    ) -> None:
        """A broker was asked for a topic that it does not know; one that exists all the same is left alone."""
        if not broker.isolated:
            self.cluster.timeline.after(
                self._delay(), self.act, self.create, topic, partitions, replication, configs, {}
            )

    def create(
        self, name: str, partitions: int, replication: int, configs: Mapping[str, str],
        assignments: Mapping[int, Sequence[int]], dry: bool = False,
    ) -> int:  # fmt: skip
        """Make a topic; the code of CreateTopics.  It has leaders creation_s later."""
        if not LEGAL.fullmatch(name) or name in (".", ".."):
            return INVALID_TOPIC
        if name in self.topics:
            return EXISTS
        live = list(self.live)
        if assignments:
            replicas = [list(assignments[number]) for number in range(len(assignments)) if number in assignments]
            if len(replicas) != len(assignments):
                if self.rules.checks_assignment:
                    return INVALID_ASSIGNMENT
                replicas = [list(row) for row in assignments.values()]
            if self.rules.kraft and any(one not in self.cluster.brokers for row in replicas for one in row):
                return INVALID_ASSIGNMENT
        else:
            partitions = self.settings.partitions if partitions == -1 else partitions
            replication = self.settings.replication if replication == -1 else replication
            if partitions < 1:
                return INVALID_PARTITIONS
            if not 1 <= replication <= len(live):
                return INVALID_REPLICATION
            replicas = self._assign(live, partitions, replication, 0)
        if any(one not in OF_TOPIC for one in configs):
            return INVALID_CONFIG
        if not dry:
            self._ids += 1
            topic = self.topics[name] = Topic(name, self._ids, configs)
            topic.partitions = [PartitionState(row) for row in replicas]
            self.cluster.forget_config(name)
            self._put_topic(topic)
            self._bring_up(topic, 0)
        return 0

    def _assign(self, live: Sequence[int], partitions: int, replication: int, first: int) -> list[list[int]]:
        """Replicas in a row over the live brokers, from a random one on (AdminUtils)."""
        begin = self.cluster.rng.randrange(len(live)) if not self.instant else 0
        ids = sorted(live)
        number = len(ids)
        return [[ids[(begin + p + n) % number] for n in range(replication)] for p in range(first, first + partitions)]

    def _bring_up(self, topic: Topic, since: int) -> None:
        if self.instant:
            self._lead(topic, since)
        else:
            wait_s = self.creation_s * (0.5 + self.cluster.rng.random())
            self.cluster.timeline.after(wait_s, self.act, self._lead, topic, since)

    def _lead(self, topic: Topic, since: int) -> None:
        """The first leaders of new partitions: all live replicas are in sync."""
        if self.topics.get(topic.name) is not topic or topic.deleting:
            return
        changed = {}
        for number in range(since, len(topic.partitions)):
            state = topic.partitions[number]
            if state.epoch < 0 and self._elect(topic, state):
                changed[topic.name, number] = state
        self._changed(changed)

    def grow(
        self, name: str, partitions: int, replicas: Sequence[Sequence[int]] | None = None, dry: bool = False
    ) -> int:
        topic = self.topics.get(name)
        if topic is None or topic.deleting:
            return UNKNOWN
        since = len(topic.partitions)
        if partitions <= since:
            return INVALID_PARTITIONS
        if replicas is None:
            number = len(topic.partitions[0].replicas)
            if number > len(self.live):
                return INVALID_REPLICATION
            replicas = self._assign(list(self.live), partitions - since, number, since)
        if len(replicas) != partitions - since:
            return INVALID_ASSIGNMENT
        if not dry:
            topic.partitions += [PartitionState(row) for row in replicas]
            self._put_topic(topic)
            self._bring_up(topic, since)
        return 0

    def delete(self, name: str) -> int:
        """Delete a topic (5.1).  Without delete.topic.enable nothing happens."""
        topic = self.topics.get(name)
        if topic is None:
            return UNKNOWN
        if not self.settings.deletes_topics:
            return DELETION_DISABLED
        if topic.deleting:
            return 0
        self.act(self._delete, topic)
        return 0

    def _delete(self, topic: Topic) -> None:
        gone: dict[Tp, LeaderAndIsr | None] = {(topic.name, n): None for n in range(len(topic.partitions))}
        if self.rules.kraft:
            del self.topics[topic.name]
            stops = {(topic.name, n): state for n, state in enumerate(topic.partitions)}
            for id in self.live:
                self._queue(id, {}, dict(gone), whole=False)
                for tp, state in stops.items():
                    if id in state.replicas:
                        self._later(id, self._stop, id, tp, True, None)
            return
        topic.deleting = True
        for id in self.live:
            self._queue(id, {}, dict(gone), whole=False)
        topic.left = {(id, n): None for n, state in enumerate(topic.partitions) for id in state.replicas}
        for id in list(self.live):
            self._delete_replicas(topic, only=id)
        if not topic.left:
            self._deleted(topic)

    def _delete_replicas(self, topic: Topic, only: int) -> None:
        for delete in (False, True):
            for id, number in topic.left:
                if id == only:
                    self._later(id, self._stop, id, (topic.name, number), delete, topic)

    def _stop(self, id: int, tp: Tp, delete: bool, topic: Topic | None) -> None:
        self.cluster.brokers[id].stop_replica(tp, delete)
        if delete and topic is not None:
            self.cluster.timeline.after(self._delay(), self.act, self._stopped, topic, id, tp[1])

    def _stopped(self, topic: Topic, id: int, number: int) -> None:
        topic.left.pop((id, number), None)
        if not topic.left and self.topics.get(topic.name) is topic:
            self._deleted(topic)

    def _deleted(self, topic: Topic) -> None:
        """All replicas are gone: the name is free."""
        del self.topics[topic.name]
        self._nodes.no_topic(topic.name, len(topic.partitions))

    # ---- telling brokers ---------------------------------------------------------------------------------------------

    def topic_id(self, name: str) -> int:
        topic = self.topics.get(name)
        return 0 if topic is None else topic.id

    def _state(self, tp: Tp) -> PartitionState | None:
        topic = self.topics.get(tp[0])
        if topic is None or topic.deleting or tp[1] >= len(topic.partitions):
            return None
        return topic.partitions[tp[1]]

    def _everything(self) -> dict[Tp, LeaderAndIsr]:
        return {
            (topic.name, number): state.said()
            for topic in self.topics.values()
            if not topic.deleting
            for number, state in enumerate(topic.partitions)
            if state.epoch >= 0
        }

    def _changed(self, states: Mapping[Tp, PartitionState], always: bool = False) -> None:
        """Record new leaders, and tell the brokers."""
        if not states and not always:
            return
        said: dict[Tp, LeaderAndIsr] = {}
        for tp, state in states.items():
            state.version += 1
            self._nodes.state(tp, state.said())
            said[tp] = state.said()
        for id in self.live:
            self._queue(id, {tp: one for tp, one in said.items() if id in one.replicas}, dict(said), whole=False)

    def _queue(
        self, id: int, roles: dict[Tp, LeaderAndIsr], changed: Mapping[Tp, LeaderAndIsr | None], whole: bool
    ) -> None:
        broker = self.cluster.brokers[id]
        brokers: dict[int, Address] = {one: self.cluster.address(one) for one in self.live}
        controller = next(iter(self.live), NO_LEADER) if self.rules.kraft else self.broker  # any, without ZooKeeper
        tell = (self._later, id, broker.cache_update, brokers, controller, changed, whole)
        if self.rules.kraft:
            tell[0](*tell[1:])
        if roles:
            self._later(id, broker.lead_and_follow, roles, brokers)
        if not self.rules.kraft:
            tell[0](*tell[1:])

    def _later(self, id: int, fn: Callable[..., object], *args: Any) -> None:
        """Call in a broker's process behind all that it was sent before."""
        life = self.live.get(id, self.cluster.brokers[id].life)
        if self.instant:
            self._deliver(id, life, fn, args)
            return
        now = self.cluster.timeline.now
        at = self._queue_at[id] = max(self._queue_at.get(id, 0.0), now + self._delay(id))
        self.cluster.timeline.at(at, self._deliver, id, life, fn, args)

    def _delay(self, id: int = NO_LEADER) -> float:
        low, high = self.delays_s.get(id, DELAY_S)
        return low + (high - low) * self.cluster.rng.random()

    def _deliver(self, id: int, life: int, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        broker = self.cluster.brokers[id]
        if broker.life != life:
            return
        if broker.isolated:
            self._held.setdefault(id, []).append((life, fn, args))
        else:
            broker.run(fn, *args)

    # ---- ZooKeeper's nodes -------------------------------------------------------------------------------------------

    def _put_topic(self, topic: Topic) -> None:
        self._nodes.topic(topic.name, [state.replicas for state in topic.partitions], topic.configs)

    def _look_at_nodes(self) -> None:
        """Take up topics that clients have made, grown or asked to delete through ZooKeeper."""
        self.cluster.timeline.after(LOOK_S, self._look_at_nodes)
        if not self._available():
            return
        for name, replicas, configs in self._nodes.written():
            topic = self.topics.get(name)
            if topic is None:
                self._ids += 1
                topic = self.topics[name] = Topic(name, self._ids, configs)
                self.cluster.forget_config(name)
            since = len(topic.partitions)
            topic.partitions += [PartitionState(row) for row in replicas[since:]]
            if len(topic.partitions) > since:
                self._bring_up(topic, since)
        for name in self._nodes.unwanted():
            if name not in self.topics:
                self._nodes.no_deletion(name)
            elif not self.topics[name].deleting:
                self.delete(name)
