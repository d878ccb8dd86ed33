"""`mirrormaker check --online`: messages that the target would delete at its next check, or store twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kazoo.exceptions import KazooException

from groundwork.output import print_note
from groundwork.sentences import counted
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import LATEST
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import LinkLost
from kafkawire.model import TopicPartition
from kafkawire.protocol import apis
from kafkawire.protocol.adminrequests import Setting
from mirrormaker.commands.onlinetarget import copied_settings, links_to, settings_in_zookeeper, target_admin
from mirrormaker.config import Configuration
from mirrormaker.options import SourceOptions, TargetOptions
from mirrormaker.probe import SourceView
from mirrormaker.retention import (
    WITHOUT_TIMES,
    Kept,
    Old,
    deleted_soon,
    kept_by,
    old_messages,
    remembered_ms,
    stored_twice,
    topic_defaults,
)
from zkconsumer.errors import ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable

TIMED, BY_TIMESTAMP = 1, 1  # message format with timestamps; version of ListOffsets that goes by them (0.10.1)


def warn_of_retention(
    configuration: Configuration,
    seen: Sequence[tuple[SourceOptions, SourceView]],
    view: ClusterView,
    there: ClusterVersions,
) -> None:
    """Say on stderr which topics hold messages that the target deletes at its next check, since it counts retention by
    their timestamps, and which may be stored twice, since its brokers forget who sent them.  Of a target before 0.10,
    which counts from the arrival, nothing."""
    target, mirror = configuration.target, configuration.mirror
    if there.dialect.magic < TIMED:
        return
    try:
        names = {configuration.selection(source).target(topic) for source, found in seen for topic in found.topics}
        settings = target_settings(target, view, there, names)
    except (Unreachable, LinkLost, ZooKeeperUnreachable, ConsumerError, KazooException) as exc:
        print_note(f"warning: target: how long it keeps messages is not compared: {exc}")
        return
    number = there.dialect.number
    numbered = target.idempotence is not False and target.acks == -1 and not mirror.exactly_once
    forgotten_ms = remembered_ms(settings.broker, number) if numbered else None
    for source, found in seen:
        try:
            sentences = list(_retention_of(source, found, configuration, settings, forgotten_ms))
        except (Unreachable, LinkLost, ZooKeeperUnreachable, ConsumerError, KazooException) as exc:
            sentences = [f"warning: source {source.name}: the age of its messages is not compared: {exc}"]
        for sentence in sentences:
            print_note(sentence)


class TargetSettings(NamedTuple):
    """Settings of the target as far as it tells them.  own: of topics that are there, what they have set; defaults:
    what else holds for them; broker: of one of its brokers, empty before 0.11."""

    own: Mapping[str, Mapping[str, str]]
    defaults: Mapping[str, Mapping[str, str]]
    broker: Mapping[str, str]

    def kept(self, topic: str, made_with: Mapping[str, str]) -> Kept:
        """Return how long a topic keeps messages.  made_with: settings that a missing topic is created with."""
        of_brokers = self.defaults.get(topic) or topic_defaults(self.broker)
        return kept_by(self.own.get(topic, made_with), of_brokers)


def target_settings(
    target: TargetOptions, view: ClusterView, there: ClusterVersions, names: Collection[str]
) -> TargetSettings:
    """Return the settings of target topics: from 0.11 on the brokers', before that those in ZooKeeper.  Raises
    Unreachable, LinkLost, zkconsumer's Unreachable, ConsumerError."""
    present = [name for name in names if view.partitions(name)]
    with target_admin(target, view, there) as admin:
        if admin.describes:
            found = admin.effective(present) if present else {}
            own, others = ({t: _values(said, mine) for t, said in found.items()} for mine in (True, False))
            return TargetSettings(own, others, admin.of_broker())
    own = settings_in_zookeeper("target.zookeeper.connect", target.zookeeper, target.version, target.security, present)
    return TargetSettings(own, {}, {})


def _values(settings: Mapping[str, Setting], own: bool) -> dict[str, str]:
    return {name: one.value for name, one in settings.items() if one.own == own}


def _retention_of(
    source: SourceOptions,
    found: SourceView,
    configuration: Configuration,
    settings: TargetSettings,
    forgotten_ms: int | None,
) -> Iterator[str]:
    """Report what warn_of_retention looks for, in one source.  Messages of 0.9 and older have no timestamps, so the
    target counts their retention from the arrival."""
    target, versions = configuration.target, ClusterVersions(source.version, f"source {source.name}")
    with links_to(source, versions) as links:
        links.meet(found.brokers.values())
        speaks = versions.dialect
        if speaks.magic < TIMED:
            if forgotten_ms is not None and target.idempotence:
                yield f"source {source.name}: {WITHOUT_TIMES}"
            return
        if speaks.speaks(apis.LIST_OFFSETS.key) < BY_TIMESTAMP:
            yield f"source {source.name}: its brokers find nothing by timestamps, so no age of messages is compared"
            return
        chosen = configuration.selection(source)
        copied = copied_settings(source, found, target, links, speaks)
        kept = {
            topic: settings.kept(chosen.target(topic), target.topic_settings.of(copied.get(topic, {})))
            for topic in found.topics
        }
        client = KafkaClient.of_brokers([(b.host, b.port) for b in found.brokers.values()], links, speaks)
        ages = {topic: age for topic, one in kept.items() if (age := one.age_ms) is not None}
        for topic, old in _older(client, found.topics, ages).items():
            said = deleted_soon(topic, chosen.target(topic), kept[topic], old)
            if said:
                yield f"warning: source {source.name}: {said}"
        if unknown := [topic for topic, one in kept.items() if one.ms is None]:
            yield (
                f"source {source.name}: how long the target keeps {counted(len(unknown), 'topic')} is not known: "
                "brokers tell it from 0.11 on, so the age of what they hold is not compared"
            )
        if forgotten_ms is not None:
            ages = dict.fromkeys(found.topics, forgotten_ms)
            for said in stored_twice(_older(client, found.topics, ages), forgotten_ms):
                yield f"source {source.name}: {said}"


def _older(client: KafkaClient, partitions: Mapping[str, int], ages_ms: Mapping[str, int]) -> dict[str, Old]:
    """Count the messages of each topic that are older than its age."""
    now_ms = int(time.time() * 1000)

    def offsets(time_ms: Callable[[str], int]) -> dict[TopicPartition, int | None]:
        tps = [TopicPartition(topic, n) for topic in ages_ms for n in range(partitions[topic])]
        found = client.list_offsets({tp: time_ms(tp.topic) for tp in tps})
        return {tp: one.offset for tp, one in found.items() if one.error is None}

    first, young = offsets(lambda topic: 0), offsets(lambda topic: now_ms - ages_ms[topic])
    return old_messages(first, young, offsets(lambda topic: LATEST))
