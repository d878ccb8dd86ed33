"""The compiled checksums are zlib's, whichever of them a machine runs."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numba
import numpy as np
import pytest

from kafkawire import checksumming as c

DATA = random.Random(8).randbytes(3000)
FORMS = [c._crc32_tables] if c.best() is c._crc32_tables else [c._crc32_tables, c._crc32_folded]


@pytest.mark.parametrize("form", FORMS)
def test_every_length_and_place_has_the_checksum_of_zlib(form: Any) -> None:
    crc32, tables = numba.njit(form), c.tables()
    octets = np.frombuffer(DATA, np.uint8)
    for size in [*range(300), 511, 512, 1014, 1015, 2900]:
        for at in (0, 1, 7):
            assert crc32(octets, at, at + size, tables) == zlib.crc32(DATA[at : at + size]), (size, at)
