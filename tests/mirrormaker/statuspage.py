"""A program that serves the views of a mirror which does not exist: `python -m tests.mirrormaker.statuspage`.

It prints its URL.  Argument: how many partitions the mirror has.  What it shows moves with time; some partitions are
parked, paused, throttled or wait, and texts contain what must never become HTML.
"""

from __future__ import annotations

import math
import sys
import time

from groundwork.loopdelay import HubLag
from groundwork.tasks import TaskGroup
from mirrormaker.http.server import StatusServer
from mirrormaker.listen import Address
from mirrormaker.report import MirrorReport, PartitionReport, ReloadReport, WaitingTopic
from tests.fakes import reports

ATTACK = "<script>window.attacked = 1</script><img src=x onerror='window.attacked = 2'>"
PENDING = "target: option 'acks' has changed; it takes effect after a restart only"
BEGAN = time.time()


def rows(count: int, seconds: float) -> list[PartitionReport]:
    made = []
    for n in range(count):
        rate = 100 + 80 * math.sin(seconds / 3 + n)
        lag = int(500 + 400 * math.sin(seconds / 2 + n))
        made.append(
            reports.partition(
                n % 8, source="dc1" if n % 3 else "dc2-with-a-long-name", topic=f"orders-{n // 8}",
                target_topic=f"orders-{n // 8}" if n % 3 else f"dc2.orders-{n // 8}", messages_per_s=rate,
                bytes_per_s=100 * rate, lag=lag, done=10_000 - lag, end=10_000, committed=9_000, lag_s=lag / rate,
            )
        )  # fmt: skip
    return made


def special(rows: list[PartitionReport]) -> list[PartitionReport]:
    changes = [
        {"state": "paused", "reason": "paused by an operator since 12:01: `mirrormaker resume orders-0:0`"},
        {"state": "parked", "reason": f"orders-0/1 at 4711: message.handler raised ValueError: {ATTACK}"},
        {"state": "throttled", "reason": "throttled to 1,000,000 B/s by an operator"},
        {"state": "looking for leader", "reason": "broker 2 (old2:9092): connecting: Connection refused", "lag": None,
         "lag_s": None, "end": None},
        {"state": "stalled", "reason": "fetched and not acknowledged, for up to 7 s"},
    ]  # fmt: skip
    dataclass_values = dict.fromkeys(PartitionReport.__slots__)
    for n, change in enumerate(changes):
        if n < len(rows):
            values = {name: getattr(rows[n], name) for name in dataclass_values}
            if change["state"] != "throttled":
                values |= {"messages_per_s": 0.0, "bytes_per_s": 0.0}
            rows[n] = PartitionReport(**values | change)
    return rows


def made(count: int) -> MirrorReport:
    seconds = time.time() - BEGAN
    found = special(rows(count, seconds))
    rate = sum(row.messages_per_s for row in found)
    return reports.report(
        name="orders", utc_offset_s=2 * 3600,
        at_ms=int(time.time() * 1000), started_ms=int((BEGAN - 7200) * 1000), partitions=tuple(found),
        messages=int(1e6 + 1000 * seconds), messages_per_s=rate, bytes_per_s=100 * rate,
        sources=(
            reports.source(owned=count, lag=sum(row.lag or 0 for row in found), unowned=3),
            reports.source(name="dc2-with-a-long-name", version="0.7.2", state="out of reach", owned=0, lag=None,
                           reason="ZooKeeper at old-zk:2181/kafka is out of reach: connection refused"),
        ),
        waiting=(WaitingTopic(source="dc1", name="news", reason=f"target topic news {ATTACK} does not exist"),),
        happenings=(
            reports.happening(f"source dc1: parked: orders-0/1: {ATTACK}", at_ms=int((BEGAN - 60) * 1000)),
            reports.happening("rebalance: reading 12 partitions", level="info", name="rebalance",
                              at_ms=int((BEGAN - 90) * 1000)),
        ),
        limits=(
            WaitingTopic(source="dc1", name="elsewhere", reason="paused by operator since 11:00"),
            WaitingTopic(source="dc1", name="orders-0", reason="throttled to 1,000,000 B/s by an operator"),
        ),
        reload=ReloadReport(at_ms=int(BEGAN * 1000), problem="", pending=(PENDING,)),
        left_out={("dc1", "orders-0", "message.handler"): 12}, gaps={("dc1", "audit"): 500},
    )  # fmt: skip


def main() -> None:
    tasks = TaskGroup()
    count = int(sys.argv[1])
    print(
        StatusServer(lambda: made(count), HubLag("the mirror", 1e9), tasks).start(Address("127.0.0.1", 0)), flush=True
    )
    tasks.wait()


if __name__ == "__main__":
    main()
