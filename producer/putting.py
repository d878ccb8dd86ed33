"""From a message to its bucket: encoded, its partition chosen, its size looked at, and room waited for.

In the thread of whoever sends.  What is refused here is refused to the sender: nothing of it is queued.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from groundwork.crew import now
from groundwork.hub import Hub
from kafkawire.dialects import Dialect
from kafkawire.model import PartitionId
from producer.buckets import Buckets, Route
from producer.config import ProducerConfig
from producer.delivery import Deliveries, Delivery, Listener, Row
from producer.errors import NotSent, PartitionerFailed, QueueFull, Undeliverable
from producer.feeder import STEP_S, Feeder
from producer.messages import check_topic
from producer.plugins import Plugins


class Putting:
    """Of one producer, which has started before anything is put."""

    def __init__(
        self, config: ProducerConfig, dialect: Dialect, plugins: Plugins, buckets: Buckets, hub: Hub, feeder: Feeder
    ) -> None:
        self._config = config
        self._stamped = dialect.magic > 0
        self._keys, self._nulls = dialect.has_keys, dialect.has_nulls
        self._release, self._payload_only = dialect.release, dialect.measures_payload
        self._chooses = config.knows_partitions
        self._plugins = plugins
        self._buckets = buckets
        self._hub = hub
        self._feeder = feeder

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition_key: Any,
        partition: PartitionId | None,
        listener: Listener | None,
        patient: bool = False,
    ) -> Delivery:
        """One message.  patient: wait for room whatever queue.enqueue.timeout.ms says.  Raises as Producer.send()."""
        route = self._buckets.route(topic) or self._route(topic)
        plugins = self._plugins
        data = value if type(value) is bytes and plugins.takes_bytes else plugins.encoded(topic, value)
        if data is None and not self._nulls:
            raise self._null(topic)
        size = route.overhead + (len(data) if data is not None else 0)
        name: bytes | None = None
        if key is not None and self._keys:
            name = plugins.encoded_key(topic, key)
            size += len(name) if name is not None else 0
        if partition is not None or key is not None or partition_key is not None:
            partition = self._choose(route, key if partition_key is None else partition_key, partition)
        if size > route.most:
            raise self._too_large(route, size)
        row = (name, data, self._stamp() if self._stamped else None)
        delivery = self._buckets.put(route, partition, row, size, listener)
        if delivery is not None:
            return delivery
        deadline = None if patient else self._deadline()
        while (delivery := self._buckets.put(route, partition, row, size, listener)) is None:
            self._wait_room(route, partition, deadline)
        return delivery

    def put_values(self, topic: str, values: list[Any], deliveries: Deliveries, listener: Listener | None) -> None:
        """Messages without keys, all to one partition.  Raises as Producer.send()."""
        route = self._route(topic)
        data = self._encoded_all(topic, values)
        rows: list[Row] = list(zip(repeat(None), data, repeat(self._stamp())))
        sizes = [route.overhead + len(value or b"") for value in data]
        self._put_all(route, None, rows, sizes, deliveries, listener)

    def put_pairs(
        self, topic: str, values: list[Any], keys: list[Any], deliveries: Deliveries, listener: Listener | None
    ) -> None:
        """Messages with keys (None: without one), as many of these.  Raises as Producer.send()."""
        route = self._route(topic)
        self._put_keyed(route, self._encoded_all(topic, values), keys, deliveries, listener)

    def _encoded_all(self, topic: str, values: list[Any]) -> Sequence[bytes | None]:
        data = self._plugins.encoded_all(topic, values)
        if not self._nulls and None in data:
            raise self._null(topic)
        return data

    def _put_all(
        self,
        route: Route,
        partition: PartitionId | None,
        rows: list[Row],
        sizes: list[int],
        deliveries: Deliveries,
        listener: Listener | None,
    ) -> None:
        if max(sizes) > route.most:
            raise self._too_large(route, max(sizes))
        deadline = self._deadline()
        while rows:
            done = self._buckets.put_many(route, partition, rows, sizes, deliveries, listener)
            if done == len(rows):
                return
            rows, sizes = rows[done:], sizes[done:]
            if not done:
                self._wait_room(route, partition, deadline)

    def _put_keyed(
        self,
        route: Route,
        data: Sequence[bytes | None],
        keys: list[Any],
        deliveries: Deliveries,
        listener: Listener | None,
    ) -> None:
        """Message by message: neighbours may go to different partitions, and deliveries keep the order given."""
        for value, key in zip(data, keys, strict=True):
            name = None if key is None or not self._keys else self._plugins.encoded_key(route.topic, key)
            partition = None if key is None else self._choose(route, key, None)
            size = route.overhead + len(name or b"") + len(value or b"")
            self._put_all(route, partition, [(name, value, self._stamp())], [size], deliveries, listener)

    def _route(self, topic: str) -> Route:
        route = self._buckets.route(topic)
        if route is None:
            check_topic(topic)
            route = self._hub.call(self._feeder.until_known, topic)
        return route

    def _choose(self, route: Route, key: Any, partition: PartitionId | None) -> PartitionId | None:
        """None: that of messages without a key.  Raises PartitionerFailed."""
        ids = route.ids
        if partition is None and not self._chooses:
            return None
        if partition is not None:
            if partition not in ids:
                raise PartitionerFailed(f"{route.topic}/{partition}: topic {route.topic} has {len(ids)} partitions")
            return partition
        return ids[self._plugins.partition_of(route.topic, key, len(ids))]

    def _stamp(self) -> int | None:
        return int(time.time() * 1000) if self._stamped else None

    def _too_large(self, route: Route, size: int) -> Undeliverable:
        head = route.overhead if self._payload_only else 0
        most = route.most - head
        return Undeliverable(
            f"{route.topic}: a message of {size - head} bytes is larger than message.max.bytes ({most})"
        )

    def _null(self, topic: str) -> NotSent:
        return NotSent(f"topic {topic}: a message of Kafka {self._release} cannot be null; nothing was sent")

    def _deadline(self) -> float | None:
        wait_s = self._config.enqueue_timeout_ms / 1000
        return None if wait_s < 0 else now() + wait_s

    def _wait_room(self, route: Route, partition: PartitionId | None, deadline: float | None) -> None:
        left = None if deadline is None else deadline - now()
        if left is not None and left <= 0:
            counts = self._buckets.counts
            where = route.topic if partition is None else f"{route.topic}/{partition}"
            raise QueueFull(
                f"{where}: {counts.pending} messages ({counts.pending_bytes} bytes) wait to be stored, and no room "
                f"came within {self._config.enqueue_timeout_ms / 1000:g} s (queue.enqueue.timeout.ms); raise "
                "queue.buffering.max.messages or .bytes"
            )
        self._hub.call(self._feeder.wait_room, STEP_S if left is None else left)
