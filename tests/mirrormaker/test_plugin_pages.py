"""What pages say of handlers, partitioners, encoders, dead letters and tokens: their examples do what they say.

Of docs/transform.md, and one example each of operations.md and security.md.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkawire.dialects import dialect
from kafkawire.model import Message, TopicPartition
from mirrormaker.deadletter import DeadLetter, write
from mirrormaker.encoding import Encoders
from mirrormaker.options import TargetOptions
from mirrormaker.plugins import encoders_of, partitioner_named
from mirrormaker.routes import RouteRules, SourceTopic, TopicRoute
from mirrormaker.sethandler import MessageColumns, SetHandler
from producer.conversion import Lists, MessageHandlerFailed, Rows
from tests.docpages import blocks, section
from tests.mirrormaker.handling import handled

V08 = dialect("0.8.2")
SOURCE = TopicPartition("orders", 0)


def module_of(title: str) -> str:
    """The section's blocks of Python, as one module."""
    found = re.findall(r"```python\n(.*?)```", section("transform.md", title), re.DOTALL)
    assert found
    return "\n\n".join(found)


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
    for topic, these, partitions in columns.outputs(rows).by_topic(SOURCE.topic):
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
    assert f"parked 1: {said}" in section("transform.md", "Partitioners and encoders")


def test_every_name_of_a_partitioner_that_the_page_has_is_known() -> None:
    for line in section("transform.md", "Partitioners and encoders").splitlines():
        if line.startswith("| `"):
            for named in re.findall(r"`([\w.-]+)`", line.split("|")[1]):
                prefix = "" if "." in named or named[0].islower() else "org.apache.kafka.clients.producer."
                if named != "partitioner.class":
                    assert partitioner_named(prefix + named, V08).name, named


def test_columns_of_the_page_are_those_of_the_class() -> None:
    text = section("transform.md", "message.set.handler")
    for name in MessageColumns.__slots__:
        assert f"`{name}`" in text, name


def program(page: str) -> str:
    """The one program of a page."""
    (found,) = (block.text for block in blocks(page) if block.language == "python")
    return found


def test_the_smallest_handler_drops_tests() -> None:
    spaces: dict[str, object] = {}
    exec(next(block.text for block in blocks("transform.md") if block.file == "small.py"), spaces)
    handler = spaces["without_tests"]
    assert callable(handler)
    kept, dropped = (Message("orders", 0, 7, None, value, None, None, None, 8) for value in (b"a", b"test 1"))
    assert [one.value for one in handled(handler, kept, "small:without_tests")] == [b"a"]
    assert handled(handler, dropped, "small:without_tests") == []


def test_a_dead_letter_is_read_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    data = b"too large" * 1_000
    letter = DeadLetter(
        source="dc1", topic="orders", partition="3", offset=17, offsets=1, kind="oversize",
        reason="larger than the target takes", content="value", data=data, size=len(data), crc32=0, key=None,
        timestamp_ms=None, at_ms=1,
    )  # fmt: skip
    exec(program("operations.md"), {"record": SimpleNamespace(value=write(letter, 1_000))})
    assert capsys.readouterr().out == (
        "orders 3 17 oversize larger than the target takes\nvalue 9000 bytes, only the first are here\n"
    )
    exec(program("operations.md"), {"record": SimpleNamespace(value=write(letter, 100_000))})
    assert repr(data) in capsys.readouterr().out


def test_the_callback_for_tokens_gives_a_token_and_its_end() -> None:
    answer = SimpleNamespace(json=lambda: {"access_token": "abc", "expires_in": 60})
    requests = SimpleNamespace(post=lambda url, data, auth, timeout: answer)
    spaces: dict[str, object] = {"requests": requests, "time": time, "ID": "me", "SECRET": "it"}
    exec(program("security.md"), spaces)
    token = spaces["token"]
    assert callable(token)
    text, until = token("https://idp/token")
    assert text == "abc"
    assert 50 < until - time.time() <= 60
