"""ApiVersions, and topics made, grown, deleted and described by request: CreateTopics and its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkawire.protocol.adminapis import OF_BROKER, OF_TOPIC
from kafkawire.protocol.api import Api, by_topic
from kafkawire.protocol.apis import APIS
from kafkawire.protocol.schema import Array, Struct, int16, int32, int64, since, string
from tests.simulation.brokers.serving import Request

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

UNKNOWN, TIMED_OUT, NOT_CONTROLLER = 3, 7, 41
LOOK_S = 0.005
# Apis that the product does not send; tests do.
DELETE_TOPICS = Api(
    20,
    "DeleteTopics",
    3,
    request=Struct(topics=Array(string), timeout_ms=int32),
    reply=Struct(throttle_time_ms=since(1, int32), topics=Array(Struct(topic=string, error=int16))),
)
DELETE_RECORDS = Api(
    21,
    "DeleteRecords",
    1,
    request=Struct(topics=by_topic(offset=int64), timeout_ms=int32),
    reply=Struct(throttle_time_ms=int32, topics=by_topic(low_watermark=int64, error=int16)),
)
TABLES: dict[int, Api] = {**APIS, DELETE_TOPICS.key: DELETE_TOPICS, DELETE_RECORDS.key: DELETE_RECORDS}


def api_versions(broker: SimBroker, request: Request) -> None:
    request.answer({"error": 0, "api_versions": broker.ranges_of(), "throttle_time_ms": 0})


def create_topics(broker: SimBroker, request: Request) -> None:
    """The handler of CreateTopics: the answer comes when the controller has made them, or told why not."""
    body, controller = request.body, broker.cluster.controller
    rows: list[dict[str, Any]] = []
    for row in body["topics"]:
        code = NOT_CONTROLLER
        if controller.is_at(broker):
            code = controller.create(
                row["topic"],
                row["partitions"],
                row["replication"],
                {one["name"]: one["value"] or "" for one in row["configs"]},
                {one["partition"]: one["brokers"] for one in row["assignments"]},
                dry=bool(body.get("validate_only")),
            )
        rows.append({"topic": row["topic"], "error": code, "error_message": None})
    _answer_later(broker, request, rows, _there(broker))


def create_partitions(broker: SimBroker, request: Request) -> None:
    body, controller = request.body, broker.cluster.controller
    rows = []
    for row in body["topics"]:
        code = NOT_CONTROLLER
        if controller.is_at(broker):
            given = None if row["assignments"] is None else [one["brokers"] for one in row["assignments"]]
            code = controller.grow(row["topic"], row["count"], given, dry=bool(body.get("validate_only")))
        rows.append({"topic": row["topic"], "error": code, "error_message": None})
    _answer_later(broker, request, rows, _there(broker))


def delete_topics(broker: SimBroker, request: Request) -> None:
    controller = broker.cluster.controller
    rows = []
    for topic in request.body["topics"]:
        code = NOT_CONTROLLER
        if controller.is_at(broker):
            code = controller.delete(topic) if broker.cache.has(topic) else UNKNOWN
        rows.append({"topic": topic, "error": code})
    _answer_later(broker, request, rows, lambda topic: topic not in broker.cache.topics)


def _answer_later(broker: SimBroker, request: Request, rows: list[dict[str, Any]], done: Callable[[str], bool]) -> None:
    """Answer once the topics are as they were asked for, in this broker's eyes; 7 for those that are not in time."""
    waits = [row for row in rows if not row["error"] and not request.body.get("validate_only")]
    until = broker.cluster.timeline.now + request.body["timeout_ms"] / 1000

    def look() -> None:
        late = [row for row in waits if not done(row["topic"])]
        if late and broker.cluster.timeline.now < until:
            broker.after(LOOK_S, look)
            return
        for row in late:
            row["error"] = TIMED_OUT
        request.answer({"throttle_time_ms": 0, "topics": rows})

    look()


def _there(broker: SimBroker) -> Callable[[str], bool]:
    """Whether a broker has heard of the leaders of all partitions of a topic."""

    def there(topic: str) -> bool:
        known = broker.cluster.controller.topics.get(topic)
        heard = broker.cache.topics.get(topic, {})
        return known is not None and len(heard) == len(known.partitions)

    return there


def describe_configs(broker: SimBroker, request: Request) -> None:
    resources = []
    for row in request.body["resources"]:
        code = 0
        settings: Sequence[tuple[str, str | None, bool]] = []
        if row["resource_type"] == OF_TOPIC:
            if broker.cache.has(row["name"]):
                settings = broker.cluster.config(row["name"]).described()
            else:
                code = UNKNOWN
        elif row["resource_type"] == OF_BROKER:
            settings = broker.settings.described()
        wanted = row["configs"]
        configs = [
            {
                "name": name,
                "value": value,
                "read_only": False,
                "is_default": not own,
                "source": 5 if not own else 1 if row["resource_type"] == OF_TOPIC else 4,
                "is_sensitive": False,
                "synonyms": [],
            }
            for name, value, own in settings
            if wanted is None or name in wanted
        ]
        resources.append(
            {
                "error": code,
                "error_message": None,
                "resource_type": row["resource_type"],
                "name": row["name"],
                "configs": configs,
            }
        )
    request.answer({"throttle_time_ms": 0, "resources": resources})
