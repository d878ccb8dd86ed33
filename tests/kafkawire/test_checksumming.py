"""The compiled checksums are zlib's, whichever of them a machine runs."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numba
import numpy as np
import pytest

from kafkawire.formats import checksums as c
from tests.kafkawire.wire_vectors import named

DATA = random.Random(8).randbytes(3000)
FORMS = [c._crc32_tables] if c.best() is c._crc32_tables else [c._crc32_tables, c._crc32_folded]


@pytest.mark.parametrize("form", FORMS)
def test_the_check_string_has_the_checksum_of_the_vectors(form: Any) -> None:
    vector = named("crc32c_check")
    crc32, tables = numba.njit(form), c.tables()
    found = crc32(np.frombuffer(vector.data, np.uint8), 0, len(vector.data), tables)
    assert f"{found:08x}" == vector.decoded["crc32"]


@pytest.mark.parametrize("form", FORMS)
def test_every_length_and_place_has_the_checksum_of_zlib(form: Any) -> None:
    crc32, tables = numba.njit(form), c.tables()
    octets = np.frombuffer(DATA, np.uint8)
    for size in [*range(300), 511, 512, 1014, 1015, 2900]:
        for at in (0, 1, 7):
            assert crc32(octets, at, at + size, tables) == zlib.crc32(DATA[at : at + size]), (size, at)
