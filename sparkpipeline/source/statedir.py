"""First offsets of a stream, kept because Spark asks for them repeatedly.

Spark asks a Python source for its first offsets twice for the first batch, and after a restart until that batch is
committed; it keeps no answer.  A start that moves (latest, a time, a group's offset) would then skip messages in
between.  So the first answer is written to a file, exclusively and atomically, and used for all later calls of any
driver:

    <stateDir>/start.json   {"version":1,"subscription":"t","start":"latest","at_ms":..,"offsets":{"t":{"0":23}}}
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping

from groundwork.jsontext import json_value
from kafkawire.model import TopicPartition
from sparkpipeline.errors import OptionRefused, Refused
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.source.offsetbounds import offsets_text, parse_offsets

log = logging.getLogger(__name__)

FILE = "start.json"
VERSION = 1


def first_start(
    state_dir: str, subscription: str, start: str, resolve: Callable[[], Mapping[TopicPartition, int]]
) -> dict[TopicPartition, int]:
    """Return the first offsets of a stream: those in the folder, else the result of resolve(), which is stored there.

    state_dir: an absolute path of this machine, or a `file:` URI.  subscription, start: the options in words.  Raises
    Refused where the folder belongs to another stream or holds what makes no sense, OptionRefused, StorageFailed.
    """
    files, path = LocalFiles(), f"{state_dir.rstrip('/')}/{FILE}"
    if not files.exists(path):
        offsets = resolve()
        if files.create(path, _text(subscription, start, offsets)):
            return dict(offsets)
        log.info("%s: another driver was quicker, its offsets count", path)
    return _read(path, files.read(path), subscription)


def _text(subscription: str, start: str, offsets: Mapping[TopicPartition, int]) -> bytes:
    said = {
        "version": VERSION,
        "subscription": subscription,
        "start": start,
        "at_ms": time.time_ns() // 1_000_000,
        "offsets": json.loads(offsets_text(offsets)),
    }
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def _read(path: str, data: bytes, subscription: str) -> dict[TopicPartition, int]:
    try:
        said = json_value(data)
        if said["version"] != VERSION:
            raise ValueError(f"version {said['version']!r}")
        offsets = parse_offsets(json.dumps(said["offsets"]), "stateDir")
        theirs, start, at_ms = str(said["subscription"]), str(said["start"]), int(said["at_ms"])
    except (ValueError, KeyError, TypeError, OptionRefused) as why:
        raise Refused(
            f"does not say where the stream began ({why}); if no batch of it was committed yet, delete the file to"
            " begin again",
            file=path,
        ) from None
    if theirs != subscription:
        raise Refused(
            f"says where a stream over {theirs} began, and this one reads {subscription}: give each stream its own "
            "stateDir, or delete the file to begin again",
            file=path,
        )
    log.warning(
        "%s: the stream begins where it first began (%s at %s); delete it along with the checkpoint",
        path, start, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000)),
    )  # fmt: skip
    return offsets
