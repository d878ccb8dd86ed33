"""What sentences for people are made of."""

from __future__ import annotations

from groundwork.sentences import counted, did_you_mean, printable


def test_one_is_no_plural() -> None:
    assert [counted(n, "group") for n in (0, 1, 2)] == ["0 groups", "1 group", "2 groups"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert [counted(n, "row", form=",") for n in (1, 2000)] == ["1 row", "2,000 rows"]


def test_the_nearest_name_is_offered_and_none_that_is_far() -> None:
    assert did_you_mean("topcs", ["topics", "groups"]) == "; did you mean 'topics'?"
    assert did_you_mean("zookeeper", {"topics", "groups"}) == ""
    assert did_you_mean("fetch.sise", ["fetch.size"], {"fetch.size": "fetch.message.max.bytes"}) == (
        "; did you mean 'fetch.message.max.bytes'?"
    )


def test_nothing_of_a_stranger_is_obeyed_by_a_terminal() -> None:
    assert printable("orders") == "orders"
    assert printable("a\x1b[31mb\u202ec\U000e0001") == r"a\u001b[31mb\u202ec\udb40\udc01"
    assert printable("a\nb") == "a\nb"
    assert printable("a\nb", keep="") == r"a\u000ab"
