"""Keys and values of messages are in no log, error or report: a random token travels, and is looked for."""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.logs import LineFormatter
from kafkawire.compression import GZIP, LZ4, NONE, SNAPPY
from kafkawire.errors import WireError
from kafkawire.formats import mixed
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v07 import messages as v07
from kafkawire.model import BrokerPartition, Message, PartitionId, TopicPartition
from mirrormaker.deadletter import NoDeadLetter, read
from mirrormaker.encoding import Encoder, MessageEncoderFailed
from mirrormaker.masking import LEAST, MOST_BYTES, frames, masked, raised
from mirrormaker.partitioning import ChosenPartitioner
from producer.conversion import MessageHandlerFailed
from producer.errors import PartitionerFailed
from tests.fuzz.mutations import mutated
from tests.mirrormaker.handling import handled

TOKEN = secrets.token_hex(8).encode()
TEXT = TOKEN.decode()
KEY, VALUE = b"key " + TOKEN, b'{"customer": "' + TOKEN + b'", "price": 17}'
ROWS = [(n, KEY, VALUE * (n + 1), 5) for n in range(4)]


# ---- damaged sets ----------------------------------------------------------------------------------------------------


def _sets() -> Iterator[tuple[str, object, PartitionId, bytes]]:
    for codec in (NONE, GZIP, SNAPPY):
        yield (
            f"0.7 {codec}",
            v07,
            BrokerPartition(0, 0),
            v07.encode([(n, None, VALUE, None) for n in range(4)], codec, -1),
        )
    for codec in (NONE, GZIP, SNAPPY, LZ4):
        yield f"v0 {codec}", v01, 0, v01.encode([(n, KEY, VALUE, None) for n, *_ in ROWS], codec, 0)
        yield f"v1 {codec}", v01, 0, v01.encode(ROWS, codec, 1)
        yield f"v2 {codec}", mixed, 0, mixed.encode(ROWS, codec, 2)


@pytest.mark.parametrize(("formats", "partition", "data"), [pytest.param(*one, id=name) for name, *one in _sets()])
def test_no_error_of_a_damaged_set_quotes_it(formats: object, partition: PartitionId, data: bytes) -> None:
    random, errors = Random(1), 0
    for _ in range(150):
        damaged = mutated(random, [data])
        for check in (True, False):
            try:
                fetched, scan = formats.message_set("t", partition, 0, memoryview(damaged), None)  # type: ignore[attr-defined]
                formats.cut_short(damaged, scan, 0, 1 << 20)  # type: ignore[attr-defined]
                list(fetched.messages(check))
            except WireError as exc:
                errors += 1
                said = f"{exc} {exc!r} {exc.__cause__} {exc.__context__}"
                assert TEXT not in said
                assert TEXT[:LEAST] not in said
    assert errors > 20


def test_a_record_that_is_no_dead_letter_is_not_quoted() -> None:
    crc = b'{"dead_letter": 1, "carried": 0, "crc32": "' + TOKEN + b'g"}\n'
    for record in (
        VALUE,
        VALUE + b"\n",
        b'{"dead_letter": 1, "carried": "' + TOKEN + b'"}\n',
        crc,
        KEY + b"\n" + VALUE,
    ):
        with pytest.raises(NoDeadLetter) as refused:
            read(record)
        assert TEXT not in str(refused.value)


# ---- code of users ---------------------------------------------------------------------------------------------------

MESSAGE = Message("orders", 3, 17, KEY, VALUE, None, None, None, 18)


def _number(message: Message) -> object:
    return int(message.value or b"")


def _composed(message: Message) -> object:
    raise RuntimeError(f"what is {message.value!r}?")


def _piece(message: Message) -> object:
    return {}[TEXT + " of the customer"]


def _in_hex(message: Message) -> object:
    raise ValueError((message.key or b"").hex())


def _chained(message: Message) -> object:
    try:
        return _number(message)
    except ValueError as exc:
        raise RuntimeError("no number") from exc


def _changed(message: Message) -> object:
    value, message.value = message.value, b"other"
    raise ValueError(value)


RAISING = (_number, _composed, _piece, _in_hex, _chained, _changed)


@pytest.mark.parametrize("handler", RAISING)
def test_what_a_handler_raises_is_told_without_the_message(
    handler: Callable[[Message], object], caplog: pytest.LogCaptureFixture
) -> None:
    message = replace(MESSAGE)
    with caplog.at_level(logging.DEBUG), pytest.raises(MessageHandlerFailed) as failed:
        handled(handler, message, f"mine:{handler.__name__}")
    said = str(failed.value)
    assert said.startswith(f"orders/3 at 17: message.handler mine:{handler.__name__} raised ")
    (record,) = caplog.records
    for form in ("logfmt", "json"):
        line = LineFormatter(form).format(record)
        assert "Traceback (most recent call last):" in line
        assert handler.__name__ in line
        for secret in (TEXT, TEXT[:LEAST], TEXT[-LEAST:], TOKEN.hex()):
            assert secret not in line
            assert secret not in said
    assert TEXT not in caplog.text


def test_encoders_and_partitioners_are_told_alike() -> None:
    def fails(data: bytes | None) -> bytes:
        raise ValueError(data)

    with pytest.raises(
        MessageEncoderFailed, match=r"t/0 at 7: serializer.class a:b raised ValueError: b'.*\*\*\*"
    ) as refused:
        Encoder("serializer.class", "a:b", fails).all(TopicPartition("t", 0), [7], [VALUE], nulls=True)  # type: ignore[arg-type]
    assert TEXT not in str(refused.value)
    for partitioner in (lambda key, count: int(key), lambda key, count: key):
        with pytest.raises(
            PartitionerFailed, match=r"partitioner.class p (raised ValueError|gave back a bytes)"
        ) as chosen:
            ChosenPartitioner("p", partitioner).index(KEY, 4)
        assert TEXT not in str(chosen.value)


def test_a_text_that_quotes_nothing_is_shown_whole() -> None:
    assert raised(KeyError("customer"), (KEY, b'{"buyer": 1}')) == "raised KeyError: 'customer'"
    assert masked(ValueError("no value here"), (b"value 1", b"k", None)) == "no value here"
    assert masked(ValueError("s3cret!"), (b"s3cret!",)) == "***"
    assert masked(ValueError("x" * 5000), ()).endswith("x…")
    assert "may quote any of 1 MiB" in masked(ValueError("x"), (bytes(MOST_BYTES + 1),))


def test_the_frames_name_every_exception_and_quote_none() -> None:
    try:
        _chained(MESSAGE)
    except RuntimeError as exc:
        found = frames(exc)
    assert [line for line in found if not line.startswith(" ")] == [
        "Traceback (most recent call last):", "ValueError", "Traceback (most recent call last):", "RuntimeError",
    ]  # fmt: skip
    assert TEXT not in "\n".join(found)


@given(
    value=st.binary(min_size=LEAST, max_size=60),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
    data=st.data(),
)
def test_every_piece_of_a_value_is_masked(value: bytes, before: str, after: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(value) - LEAST))
    piece = value[begin : begin + data.draw(st.integers(LEAST, 60))]
    for form in (piece.hex(), piece.decode("latin-1") if piece.isascii() else piece.hex()):
        said = masked(ValueError(before + form + after), (value,)).encode()
        assert form.encode() not in said
        assert "***" in said.decode()


@given(text=st.text(max_size=60), payloads=st.lists(st.binary(max_size=30), max_size=3))
def test_what_is_masked_is_what_both_have(text: str, payloads: list[bytes]) -> None:
    """Against the obvious: each byte stands in a piece of LEAST that a payload has, or stays."""
    shown = text.encode("utf-8", "backslashreplace")
    held = [form for one in payloads if len(one) >= 4 for form in (one, one.hex().encode())]
    common = {
        at + n
        for form in held
        for at in range(len(shown))
        for size in (min(LEAST, len(form)),)
        if len(shown[at : at + size]) == size and shown[at : at + size] in form
        for n in range(size)
    }
    if not common:
        assert masked(ValueError(text), payloads) == shown.decode()
    else:
        assert "***" in masked(ValueError(text), payloads)
        kept = bytes(byte for at, byte in enumerate(shown) if at not in common).decode("utf-8", "replace")
        assert len(masked(ValueError(text), payloads).replace("***", "")) <= len(kept) + 8


def test_what_no_mask_finds_is_what_a_handler_composes_anew() -> None:
    """Told in SECURITY.md: base64 and its like."""
    text = base64.b64encode(VALUE).decode()
    assert masked(ValueError(text), (VALUE,)) == text
