"""One checksum over many neighbours against the checksum of each."""

import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.columns import are_right

LAYOUTS = st.sampled_from([(12, range(4, 8)), (5, ()), (6, ())])  # 0.8 and later; 0.7's two


def entries(crc_at: int, bodies: list[bytes], first: int) -> bytes:
    made = []
    for number, body in enumerate(bodies, first):
        head = number.to_bytes(8, "big") + len(body).to_bytes(4, "big") if crc_at == 12 else bytes(range(crc_at))
        made.append(head + zlib.crc32(body).to_bytes(4, "big") + body)
    return b"".join(made)


@settings(max_examples=200, deadline=None)
@given(
    layout=LAYOUTS,
    size=st.integers(1, 40),
    fill=st.binary(min_size=400, max_size=400),
    count=st.integers(2, 10),
    first=st.integers(0, 1 << 62),
    flips=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 400)), max_size=3, unique=True),
)
def test_one_checksum_says_what_each_of_them_says(
    layout: tuple[int, range], size: int, fill: bytes, count: int, first: int, flips: list[tuple[int, int]]
) -> None:
    crc_at, unlike = layout
    data = bytearray(entries(crc_at, [fill[n * size :][:size] for n in range(count)], first))
    step = len(data) // count
    for number, bit in flips:  # in a checksum, or in what it covers
        at = (number % count) * step + crc_at + bit // 8 % (step - crc_at)
        data[at] ^= 1 << bit % 8
    each = [bytes(data[n * step :][:step]) for n in range(count)]
    right = all(int.from_bytes(e[crc_at:][:4], "big") == zlib.crc32(e[crc_at + 4 :]) for e in each)
    around = b"before" + bytes(data) + b"behind"
    assert are_right(around, 6, step, count, crc_at, unlike) is right


def test_the_same_damage_in_two_of_them_does_not_cancel_out() -> None:
    data = bytearray(entries(12, [b"abc"] * 50, 0))
    for other in range(1, 50):
        twice = bytearray(data)
        for number in (0, other):
            twice[number * 19 + 17] ^= 4
        assert not are_right(bytes(twice), 0, 19, 50, 12, range(4, 8))
