"""A log as a broker of 0.11 or later keeps it for idempotent producers: it stores each numbered batch once."""

from __future__ import annotations

import struct

import crc32c

from kafkawire.formats.v2.layout import HEAD, OVERHEAD, batch_at
from kafkawire.formats.v2.read import check_crc

OK, OUT_OF_ORDER, EPOCH_OVER, UNKNOWN = 0, 45, 47, 59


def record_batch(text: bytes, count: int = 1, time_ms: int = -1) -> bytes:
    """A batch with this text where its records are; nothing here reads them."""
    checked = struct.pack(">hiqqqhii", 0, count - 1, time_ms, time_ms, -1, -1, -1, count)
    crc = crc32c.crc32c(text, crc32c.crc32c(checked))
    return struct.pack(">qiibI", 0, OVERHEAD - 12 + len(text), -1, 2, crc) + checked + text


class BatchLog:
    """One partition.  stored: the texts, in order.  producers: by id (epoch, next sequence, last one, its offset)."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []
        self.producers: dict[int, tuple[int, int, int, int]] = {}
        self.end = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Error code and base offset."""
        batch = batch_at(data, 0)
        assert batch is not None
        assert batch.end == len(data), "one whole batch"
        check_crc(data, batch)  # the checksum is that of the new head
        assert HEAD.unpack_from(data)[0] == 0, "a producer's base offset is 0"
        assert batch.producer_id >= 0
        known = self.producers.get(batch.producer_id)
        if known is None:
            if batch.base_sequence != 0:
                return UNKNOWN, -1
        else:
            epoch, following, last, offset = known
            if batch.producer_epoch < epoch:
                return EPOCH_OVER, -1
            if batch.producer_epoch == epoch:
                if batch.base_sequence == last and batch.count == (following - last):
                    return OK, offset
                if batch.base_sequence != following:
                    return OUT_OF_ORDER, -1
            elif batch.base_sequence != 0:
                return OUT_OF_ORDER, -1
        self.stored.append(data[OVERHEAD:])
        sequence = batch.base_sequence
        self.producers[batch.producer_id] = batch.producer_epoch, sequence + batch.count, sequence, self.end
        self.end += batch.count
        return OK, self.end - batch.count

    def forget(self) -> None:
        """The producers' state is gone: their ids expired, or retention took what they wrote."""
        self.producers.clear()
