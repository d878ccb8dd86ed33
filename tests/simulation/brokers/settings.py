"""Settings of brokers and topics, as far as they change what is simulated: server.properties, and what topics set."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.brokers.entries import Limits
from tests.simulation.brokers.releases import Rules

HOUR_MS = 3_600_000
FOR_EVER = 1 << 62
OF_BROKER = {  # topic's name -> broker's name, where that is another
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
}


OF_TOPIC = {
    *OF_BROKER, "compression.type", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
    "max.compaction.lag.ms", "message.downconversion.enable", "message.format.version",
    "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "min.cleanable.dirty.ratio",
    "min.insync.replicas", "preallocate", "segment.index.bytes", "segment.jitter.ms", "unclean.leader.election.enable",
}  # fmt: skip


class Settings:
    """A broker's settings."""

    def __init__(self, rules: Rules, given: Mapping[str, str]) -> None:
        self.given = dict(given)
        self.rules = rules

        def whole(name: str, default: int) -> int:
            return int(given.get(name, default))

        def flag(name: str, default: bool) -> bool:
            return given.get(name, "true" if default else "false") == "true"

        self.lag_time_s = whole("replica.lag.time.max.ms", rules.lag_time_ms) / 1000
        self.lag_max_messages = whole("replica.lag.max.messages", rules.lag_max_messages) if rules.v08 else FOR_EVER
        self.fetch_wait_s = whole("replica.fetch.wait.max.ms", 500) / 1000
        self.replica_fetch_bytes = whole("replica.fetch.max.bytes", 1 << 20)
        self.hw_checkpoint_s = whole("replica.high.watermark.checkpoint.interval.ms", 5000) / 1000
        self.retention_check_s = whole("log.retention.check.interval.ms", 300_000) / 1000
        session = "broker.session.timeout.ms" if rules.kraft else "zookeeper.session.timeout.ms"
        self.session_s = whole(session, 9000 if rules.kraft else 6000) / 1000
        self.auto_create = flag("auto.create.topics.enable", True)
        self.partitions = whole("num.partitions", 1)
        self.replication = whole("default.replication.factor", 1)
        self.deletes_topics = flag("delete.topic.enable", rules.deletes_topics)
        self.rebalances = flag("auto.leader.rebalance.enable", rules.rebalances_leaders)
        self.rebalance_check_s = whole("leader.imbalance.check.interval.seconds", 300)
        self.controlled_shutdown = flag("controlled.shutdown.enable", rules.controlled_shutdown)
        self.cleans = flag("log.cleaner.enable", rules.cleans)
        self.clean_check_s = whole("log.cleaner.backoff.ms", 15_000) / 1000
        self.follower_reads = "replica.selector.class" in given
        self.max_request_bytes = whole("socket.request.max.bytes", 100 << 20)
        self.producer_expiry_ms = whole(rules.producer_expiry, rules.producer_expiry_ms)
        self.downconverts = flag("log.message.downconversion.enable", True)

    def described(self) -> list[tuple[str, str | None, bool]]:
        """(name, value, whether it is set) of the settings that DescribeConfigs answers for a broker."""
        rows: dict[str, str | None] = {
            "auto.create.topics.enable": "true",
            "default.replication.factor": "1",
            "log.cleanup.policy": "delete",
            "log.message.timestamp.type": "CreateTime",
            "log.retention.bytes": "-1",
            "log.retention.hours": "168",
            "log.retention.minutes": None,
            "log.retention.ms": None,
            "log.segment.bytes": str(1 << 30),
            "message.max.bytes": str(self.rules.max_message_bytes),
            "min.insync.replicas": "1",
            "num.partitions": "1",
            self.rules.producer_expiry: str(self.rules.producer_expiry_ms),
        }
        rows.update(self.given)
        return [(name, value, name in self.given) for name, value in sorted(rows.items())]


class TopicConfig:
    """What holds for one topic: its own settings before those of the broker before the defaults."""

    def __init__(self, settings: Settings, own: Mapping[str, str]) -> None:
        rules, given = settings.rules, settings.given
        self.own = dict(own)

        def text(name: str, default: str) -> str:
            return own.get(name, given.get(OF_BROKER.get(name, name), default))

        hours = int(given.get("log.retention.hours", 168))
        minutes = int(given["log.retention.minutes"]) if "log.retention.minutes" in given else hours * 60
        retention_ms = int(text("retention.ms", str(minutes * 60_000)))
        self.retention_ms = retention_ms if retention_ms >= 0 else FOR_EVER
        retention_bytes = int(text("retention.bytes", "-1"))
        self.retention_bytes = retention_bytes if retention_bytes >= 0 else FOR_EVER
        self.segment_bytes = int(text("segment.bytes", str(1 << 30)))
        self.segment_ms = int(text("segment.ms", str(int(given.get("log.roll.hours", 168)) * HOUR_MS)))
        policy = text("cleanup.policy", "delete").split(",")
        self.policy = ",".join(policy)
        self.compacts = "compact" in policy
        self.deletes = "delete" in policy
        self.delete_retention_ms = int(text("delete.retention.ms", str(24 * HOUR_MS)))
        self.compaction_lag_ms = int(text("min.compaction.lag.ms", "0"))
        self.min_isr = int(text("min.insync.replicas", "1")) if rules.has_min_isr else 1
        unclean = text("unclean.leader.election.enable", "true" if rules.unclean else "false") == "true"
        self.unclean = rules.always_unclean or unclean
        self.append_time = rules.message_format > 0 and text("message.timestamp.type", "CreateTime") == "LogAppendTime"
        difference = text("message.timestamp.difference.max.ms", own.get("message.timestamp.before.max.ms", ""))
        self.limits = Limits(
            max_bytes=int(text("max.message.bytes", str(rules.max_message_bytes))),
            segment_bytes=self.segment_bytes,
            append_time=self.append_time,
            compacted=self.compacts,
            largest_difference_ms=int(difference) if difference and rules.message_format else None,
        )

    def described(self) -> list[tuple[str, str, bool]]:
        """(name, value, whether the topic set it itself) of the settings that DescribeConfigs answers."""
        rows = {
            "cleanup.policy": self.policy,
            "max.message.bytes": str(self.limits.max_bytes),
            "message.timestamp.type": "LogAppendTime" if self.append_time else "CreateTime",
            "min.insync.replicas": str(self.min_isr),
            "retention.bytes": str(-1 if self.retention_bytes == FOR_EVER else self.retention_bytes),
            "retention.ms": str(-1 if self.retention_ms == FOR_EVER else self.retention_ms),
            "segment.bytes": str(self.segment_bytes),
            "segment.ms": str(self.segment_ms),
        }
        rows.update(self.own)
        return [(name, value, name in self.own) for name, value in sorted(rows.items())]
