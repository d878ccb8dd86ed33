"""What docs/transform.md says of handlers, partitioners and encoders: its examples do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkawire.dialects import dialect
from kafkawire.model import Message, TopicPartition
from mirrormaker.encoding import Encoders
from mirrormaker.handler import handled
from mirrormaker.options import TargetOptions
from mirrormaker.plugins import encoders_of, partitioner_named
from mirrormaker.routes import RouteRules, SourceTopic, TopicRoute
from mirrormaker.sethandler import MessageColumns, SetHandler
from producer.conversion import Lists, MessageHandlerFailed, Rows

PAGE = (Path(__file__).parents[2] / "docs" / "transform.md").read_text(encoding="utf-8")
V08 = dialect("0.8.2")
SOURCE = TopicPartition("orders", 0)


def module_of(section: str) -> str:
    """The section's blocks of Python, as one module."""
    found = re.findall(r"```python\n(.*?)```", text_of(section), re.DOTALL)
    assert found
    return "\n\n".join(found)


def text_of(section: str) -> str:
    return PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's modules, under names that no other test imports."""
    (tmp_path / "page_sethandlers.py").write_text(module_of("message.set.handler"))
    (tmp_path / "page_plugins.py").write_text(module_of("Partitioners and encoders"))
    monkeypatch.syspath_prepend(str(tmp_path))


def test_handlers_of_messages_set_times_and_partitions() -> None:
    spaces: dict[str, object] = {}
    exec(module_of("message.handler"), spaces)
    stamped, by_region = spaces["stamped"], spaces["by_region"]
    assert callable(stamped)
    assert callable(by_region)
    message = Message("orders", 3, 7, b"k", b'{"created_ms": 17, "region": "us"}', None, None, None, 8)
    assert handled(stamped, message, "handlers:stamped")[0].timestamp_ms == 17
    (sent,) = handled(by_region, message, "handlers:by_region")
    assert (sent.topic, sent.key, sent.value, sent.partition) == ("orders", b"k", message.value, 1)


Row = tuple[str | None, object, int, bytes | None, bytes | None]


@pytest.mark.parametrize(
    ("name", "values", "given", "dropped"),
    [
        ("without_tests", [b"test 1", b"a"], [(None, None, 8, None, b"a")], 1),
        (
            "by_tenant",
            [b"audit x", b"eu y"],
            [(None, 0, 7, b"audit", b"audit x"), (None, None, 8, b"eu", b"eu y")],
            0,
        ),
        (
            "errors_apart",
            [b"an ERROR", b"fine"],
            [("errors", None, 7, None, b"an ERROR"), (None, None, 8, None, b"fine")],
            0,
        ),
        (
            "lines",
            [b"a\nb", b"", b"c"],
            [(None, None, 7, None, b"a"), (None, None, 7, None, b"b"), (None, None, 9, None, b"c")],
            1,
        ),
    ],
)
@pytest.mark.usefixtures("importable")
def test_handlers_of_sets(name: str, values: list[bytes], given: list[Row], dropped: int) -> None:
    import page_sethandlers  # type: ignore[import-not-found]

    handler = SetHandler(getattr(page_sethandlers, name), f"sethandlers:{name}", "dc1", V08)
    keys: list[bytes | None] = [None] * len(values)
    rows = Rows(list(range(7, 7 + len(values))), keys, list(values), [None] * len(values), 7 + len(values))
    columns = handler.handled(SOURCE, rows)
    handler.count_dropped(SOURCE, rows, columns)
    found: list[Row] = []
    for topic, these, partitions in columns.outputs(rows).by_topic():
        chosen = partitions or [None] * len(these.offsets)
        found += zip([topic] * len(chosen), chosen, these.offsets, these.keys, these.values, strict=True)
    assert found == given
    assert sum(handler.dropped.values()) == dropped


@pytest.mark.usefixtures("importable")
def test_the_partitioner_and_the_encoder_and_what_is_said_where_they_fail() -> None:
    options = TargetOptions(
        brokers=(("k", 1),),
        partitioner="page_plugins:by_region",
        encoder="page_plugins:Framed",
        key_encoder="producer.encoders:as_bytes",
    )
    chosen = partitioner_named(options.partitioner, V08)
    encoders = encoders_of(options)
    assert encoders.of_keys is None
    rules = RouteRules(
        source=V08, target=V08, message_max_bytes=1 << 20, partitioner=lambda topic: chosen, encoders=encoders
    )
    into: dict[TopicPartition, Lists] = {}
    rows = Rows([0, 1, 2], [b"eu-1", b"xx", b"us-1"], [b"a", None, b"bc"], [None] * 3, 3)
    TopicRoute("orders", SourceTopic(1, 1), range(4), rules).place(SOURCE, rows, into)
    assert {tp.partition: (lists.keys, lists.values) for tp, lists in into.items()} == {
        0: ([b"eu-1"], [b"\0\0\0\1a"]),
        1: ([b"us-1"], [b"\0\0\0\2bc"]),
        3: ([b"xx"], [None]),
    }
    alone = TopicRoute(
        "orders", SourceTopic(1, 1), range(1), RouteRules(
            source=V08, target=V08, message_max_bytes=1 << 20, partitioner=lambda topic: chosen, encoders=Encoders()
        )
    )  # fmt: skip
    with pytest.raises(MessageHandlerFailed) as failed:
        alone.place(SOURCE, rows, {})
    said = str(failed.value).replace("page_plugins", "plugins")
    assert f"parked 1: {said}" in text_of("Partitioners and encoders")


def test_every_name_of_a_partitioner_that_the_page_has_is_known() -> None:
    for line in text_of("Partitioners and encoders").splitlines():
        if line.startswith("| `"):
            for named in re.findall(r"`([\w.-]+)`", line.split("|")[1]):
                prefix = "" if "." in named or named[0].islower() else "org.apache.kafka.clients.producer."
                if named != "partitioner.class":
                    assert partitioner_named(prefix + named, V08).name, named


def test_columns_of_the_page_are_those_of_the_class() -> None:
    section = text_of("message.set.handler")
    for name in MessageColumns.__slots__:
        assert f"`{name}`" in section, name
