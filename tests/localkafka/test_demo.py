"""The demo's judge: what it calls lost, a duplicate, outside and a phantom."""

from localkafka import demo
from localkafka.demo import compare

SOURCE = [(0, "a", "one"), (1, None, "two"), (2, "b", "three")]


def row(target, committed=0):
    return compare("t", 0, SOURCE, [(n, key, value) for n, (key, value) in enumerate(target)], committed=committed)


ALL = [("a", "one"), (None, "two"), ("b", "three")]


def test_equal_logs_have_nothing_to_say():
    same = row(ALL)
    assert (same.source, same.target, same.lost, same.duplicates, same.phantoms) == (3, 3, 0, 0, 0)


def test_a_missing_message_is_lost_and_named():
    short = row(ALL[:2])
    assert short.lost == 1
    assert short.examples == ("three",)


def test_a_message_under_another_key_is_lost_and_a_phantom():
    other = row([("a", "one"), ("key", "two"), ("b", "three")])
    assert (other.lost, other.phantoms) == (1, 1)


def test_a_repeated_message_is_a_duplicate_and_no_phantom():
    twice = row([*ALL, ("b", "three")], committed=2)
    assert (twice.lost, twice.duplicates, twice.outside, twice.phantoms) == (0, 1, 0, 0)


def test_a_repeat_of_what_was_committed_before_the_kill_is_outside():
    assert row([*ALL, ("a", "one")], committed=1).outside == 1


def test_the_verdict_is_1_for_a_loss_and_0_for_allowed_duplicates(capsys):
    assert demo.verdict([row(ALL), row([*ALL, ("b", "three")], committed=2)]) == 0
    assert demo.verdict([row(ALL), row(ALL[:2])]) == 1
    assert "lost 1" in capsys.readouterr().out
