"""What message.handler may give back, and what happens when it does not."""

from dataclasses import replace

import pytest

from kafkawire.headers import unpacked
from kafkawire.model import Message
from mirrormaker.handler import DROP, Send
from producer.conversion import MessageHandlerFailed
from tests.mirrormaker.handling import Sent, handled


def message(key: bytes | None = b"k", value: bytes | None = b"v") -> Message:
    return Message("orders", 3, 81920, key, value, 17, 0, None, 81921)


def changed(given: Message) -> Message:
    given.topic = "archive"
    return given


@pytest.mark.parametrize(
    ("handler", "sent"),
    [
        (lambda m: DROP, []),
        (lambda m: [], []),
        (lambda m: (None, b"x"), [Sent("orders", None, b"x", 17)]),
        (lambda m: ("news", b"a", None), [Sent("news", b"a", None, 17)]),
        (lambda m: m, [Sent("orders", b"k", b"v", 17)]),
        (lambda m: Send(b"x"), [Sent("orders", None, b"x", 17)]),
        (lambda m: Send(b"x", m.key, partition=2), [Sent("orders", b"k", b"x", 17, 2)]),
        (
            lambda m: [Send(None, b"1", "news", 0, 5), m],
            [Sent("news", b"1", None, 5, 0), Sent("orders", b"k", b"v", 17)],
        ),
        (changed, [Sent("archive", b"k", b"v", 17)]),
        (lambda m: [m, (b"1", b"2")], [Sent("orders", b"k", b"v", 17), Sent("orders", b"1", b"2", 17)]),
    ],
)
def test_everything_a_handler_may_give_back(handler: object, sent: list[Sent]) -> None:
    assert callable(handler)
    assert handled(handler, message(), "a:b") == sent


HEADERS = (("trace", b"1"), ("trace", None))


@pytest.mark.parametrize(
    ("handler", "headers"),
    [
        (lambda m: m, HEADERS),
        (lambda m: (None, b"x"), HEADERS),
        (lambda m: Send(b"x"), HEADERS),
        (lambda m: Send(b"x", headers=()), None),
        (lambda m: Send(b"x", headers=[("new", b"")]), (("new", b""),)),
        (lambda m: replace(m, headers=None), None),
    ],
)
def test_headers_stay_unless_a_handler_gives_others(handler: object, headers: object) -> None:
    assert callable(handler)
    (sent,) = handled(handler, replace(message(), headers=HEADERS), "a:b")
    assert (sent.headers and unpacked(sent.headers)) == headers


@pytest.mark.parametrize("headers", [[("a", "text")], [("a",)], [(b"a", b"b")], 7])
def test_what_are_no_headers_is_refused(headers: object) -> None:
    with pytest.raises(MessageHandlerFailed, match=r"orders/3 at 81920: message\.handler a:b gave back headers that"):
        handled(lambda m: Send(b"x", headers=headers), message(), "a:b")  # type: ignore[arg-type]


def boom(given: Message) -> object:
    return {}[given.key]


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (boom, "orders/3 at 81920: message.handler a:b raised KeyError: b'k'"),
        (
            lambda m: b"just a value",
            "orders/3 at 81920: message.handler a:b gave back a bytes, not the message, (key, value)",
        ),
        (
            lambda m: None,
            "orders/3 at 81920: message.handler a:b gave back None: return the message, (key, value), (topic, key, "
            "value), a Send or a list of these; to drop the message return DROP of mirrormaker.handler, or an empty "
            "list",
        ),
        (
            lambda m: Send(b"x", topic=b"news"),  # type: ignore[arg-type]
            "orders/3 at 81920: message.handler a:b gave back a bytes in topics, not str or None",
        ),
        (lambda m: [DROP], "orders/3 at 81920: message.handler a:b gave back a Drop, not the message"),
        (
            lambda m: ("k", b"v"),
            "orders/3 at 81920: message.handler a:b gave back a str in keys, not bytes or None",
        ),
        (
            lambda m: [(b"k", 7)],
            "orders/3 at 81920: message.handler a:b gave back a int in values, not bytes or None",
        ),
    ],
)
def test_a_failing_handler_names_the_message(handler: object, why: str) -> None:
    assert callable(handler)
    with pytest.raises(MessageHandlerFailed) as failed:
        handled(handler, message(), "a:b")
    assert str(failed.value).startswith(why)
