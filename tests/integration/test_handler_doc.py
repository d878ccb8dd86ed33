"""What docs/transform.md says of message.handler, with its own examples, in mirrors between real clusters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import produce

PAGE = (Path(__file__).parents[2] / "docs" / "transform.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## message.handler\n")[2].partition("\n## ")[0]
(MODULE,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
(LOGGED,) = re.findall(r"```text\n(level=error.*?)```", SECTION, re.DOTALL)

pytestmark = pytest.mark.real


class Place:
    """A source topic of one partition, and a mirror with one of the page's handlers."""

    def __init__(self, source: ClusterClient, target: ClusterClient, unique: Unique, folder: Path) -> None:
        self.source, self.target, self.folder = source, target, folder
        self.topic, self.group = unique.topic("orders"), unique.group()
        (folder / "handlers.py").write_text(MODULE)
        source.create_topic(self.topic, 1)

    def produce(self, *values: bytes) -> None:
        produce(self.source, TopicPartition(self.topic, 0), [(None, value) for value in values])

    def mirror(self, handler: str, **options: object) -> Mirror:
        settings = {"message.handler": f"handlers:{handler}", **options}
        env = {"PYTHONPATH": str(self.folder)}
        return Mirror(self.folder, self.source, self.target, self.group, self.topic, settings, env=env)

    def stored(self, topic: str) -> list[tuple[str | None, str | None]]:
        return [(row.key, row.payload) for row in tools.dump_partition(self.target, topic, 0)]


@pytest.fixture
def place(source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path) -> Place:
    return Place(source, target, unique, tmp_path)


def test_messages_are_dropped_and_counted(place: Place) -> None:
    place.produce(b"test 1", b"order 1", b"test 2", b"order 2")
    with place.mirror("without_tests") as mirror:
        mirror.wait_all_committed([place.topic])
        mirror.wait_said("; dropped 2 (message.handler)")
        assert mirror.stop()[0] == 0
    assert place.stored(place.topic) == [(None, "order 1"), (None, "order 2")]
    assert f"topic {place.topic}: message.handler dropped 2 messages since the start" in mirror.said()


def test_a_message_goes_to_a_second_topic_too(place: Place) -> None:
    place.produce(b"order 1", b"order 2")
    with place.mirror("archived") as mirror:
        mirror.wait_all_committed([place.topic])
        assert mirror.stop()[0] == 0
    sent = [(None, "order 1"), (None, "order 2")]
    assert place.stored(place.topic) == place.stored(f"{place.topic}-archive") == sent


def test_what_a_handler_raises_parks_the_partition_and_is_logged_as_shown(place: Place) -> None:
    place.produce(b'{"customer": "a"}', b'{"customer": "b"}', b'{"buyer": "c"}', b'{"customer": "d"}')
    with place.mirror("by_customer", partitioning="key") as mirror:
        parked = "0 at 2: message.handler handlers:by_customer raised KeyError: 'customer'"
        assert f"parked 1: orders/{parked}" in " ".join(SECTION.split())
        mirror.wait_said(f"parked 1: {place.topic}/{parked}")
        assert place.stored(place.topic) == [("a", '{"customer": "a"}'), ("b", '{"customer": "b"}')]
        mirror.wait_for(lambda: mirror.committed([place.topic])[TopicPartition(place.topic, 0)] == 2, "offset 2")
        assert mirror.stop()[0] == 0
    said = mirror.said().replace(place.topic, "orders").replace(str(place.folder), "/etc/mirrormaker/handlers")
    for part in LOGGED.replace("\n", "…").split("…"):  # "…" is left out
        assert part.strip() in said, said
    assert said.count("Traceback") == 1
