"""The one line an operator looks at."""

import io

import pytest

from mirrormaker.status import Blocked, Limited, Snapshot, StatusLine, status_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rates_are_those_between_two_moments() -> None:
    before = Snapshot(at=100.0, messages=1000, bytes=1_000_000)
    this = Snapshot(at=102.0, messages=83_400, bytes=9_240_000, lag=1204, in_flight_bytes=3_100_000, owned=12)
    assert status_line(before, this) == "41,200 msg/s, 4.1 MB/s, lag 1,204, in flight 3.1 MB, 12 partitions"


def test_what_stands_still_is_named_with_its_reason() -> None:
    parked = (Blocked("orders/3", "orders/3 at 7: larger than the target takes"), Blocked("orders/4", "corrupt"))
    this = Snapshot(at=1.0, owned=1, parked=parked, waiting=(Blocked("news", "target topic news does not exist"),))
    assert status_line(Snapshot(at=0.0), this) == (
        "0 msg/s, 0.0 MB/s, lag unknown, in flight 0.0 MB, 1 partition; "
        "parked 2: orders/3 at 7: larger than the target takes | orders/4: corrupt; "
        "waiting 1: news: target topic news does not exist"
    )


def test_what_the_handler_dropped_is_counted_since_the_start() -> None:
    line = status_line(
        Snapshot(at=0.0),
        Snapshot(at=1.0, lag=0, dropped=2000, dropped_by=("message.handler",), trouble="ZooKeeper away"),
    )
    assert line.endswith("0 partitions; dropped 2,000 (message.handler); ZooKeeper away")


def test_what_an_operator_limits_is_named_as_such() -> None:
    this = Snapshot(at=1.0, lag=5, paused=Limited(2, ("orders",)), throttled=Limited(1, ("clicks/3",)))
    line = status_line(Snapshot(at=0.0), this)
    assert line.endswith("; paused 2: orders (operator); throttled 1: clicks/3 (operator)")


def test_many_parked_partitions_do_not_flood_the_line() -> None:
    parked = tuple(Blocked(f"t/{p}", "corrupt") for p in range(9))
    line = status_line(Snapshot(at=0.0), Snapshot(at=1.0, lag=0, parked=parked))
    assert line.endswith("parked 9: t/0: corrupt | t/1: corrupt | t/2: corrupt and 6 more")


def test_trouble_of_the_whole_mirror_ends_the_line() -> None:
    line = status_line(Snapshot(at=0.0), Snapshot(at=1.0, lag=0, trouble="ZooKeeper at zk1:2181 does not answer"))
    assert line.endswith("0 partitions; ZooKeeper at zk1:2181 does not answer")


def test_log_lines_go_above_the_status_line_of_a_terminal() -> None:
    terminal = Terminal()
    shown = StatusLine(terminal)
    shown.show("10 msg/s")
    shown.write("owned orders/3\n")
    assert terminal.getvalue() == "\r\x1b[K10 msg/s\r\x1b[Kowned orders/3\n10 msg/s"


def test_a_long_status_line_stays_on_one_row() -> None:
    terminal = Terminal()
    StatusLine(terminal, columns=20).show("x" * 50)
    assert terminal.getvalue() == "\r\x1b[K" + "x" * 18 + "…"


def test_a_file_gets_plain_log_lines() -> None:
    file = io.StringIO()
    shown = StatusLine(file)
    shown.write("owned orders/3\n")
    assert (shown.rewrites, file.getvalue()) == (False, "owned orders/3\n")


@pytest.mark.parametrize(
    ("lag", "lag_bytes", "shown"),
    [(0, 3_100_000, "3.1 MB"), (1204, 3_100_000, "1,204 + 3.1 MB"), (0, 0, "0 B"), (0, 99_999, "99,999 B"),
     (5, None, "5"), (None, 7, "unknown")],
)  # fmt: skip
def test_a_lag_in_bytes_says_so(lag: int | None, lag_bytes: int | None, shown: str) -> None:
    line = status_line(Snapshot(at=0.0), Snapshot(at=1.0, lag=lag, lag_bytes=lag_bytes))
    assert f", lag {shown}, in flight" in line
