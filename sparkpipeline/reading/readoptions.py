"""Read options of a task: fetches, columns, record batches, lost data.  A value, pickled with every reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fallback = Literal["none", "null", "plan"]
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a reader.  columns: names in the order wanted; may include headers, rowNumber and valueCrc."""

    fetch_bytes: int = 4 << 20  # of one partition in one fetch
    fetch_bytes_cap: int = 64 << 20  # how far a fetch grows for a message that does not fit
    max_wait_ms: int = 500  # how long a broker may wait for min_bytes
    min_bytes: int = 1
    check_crcs: bool = True
    fail_on_data_loss: bool = True  # False: lost offsets are skipped, with a warning that has their number
    patience_ms: int = 60000  # how long a range may get nothing while its leader is looked for, or its log is shorter
    timestamp_fallback: Fallback = "none"  # of messages without a timestamp: -1 ms as in Spark, null, or plan_time_ms
    plan_time_ms: int | None = None
    include_headers: bool = False
    columns: tuple[str, ...] = COLUMNS
    batch_bytes: int = 4 << 20  # of keys and values in a record batch, a single larger row apart
    batch_rows: int = 10000
    skip_damaged: bool = False  # damaged entries are skipped and counted (damagelog.py)
    # How the caller spells what helps, at the end of an error's sentence:
    cap_option: str = "fetchBytesCap"
    loss_helps: str = "failOnDataLoss=false skips what is not there"
    damage_helps: str = ""
    crc_helps: str = "kafka.check.crcs=false reads it all the same"
