from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork import javamatch
from groundwork.java import PatternRefused, topic_filter
from groundwork.javachars import POSIX
from groundwork.javaregex import to_python
from tests.cases import each

NAME = st.text(st.sampled_from("abAB01._-"), min_size=1, max_size=6)


@each(
    ("text", "matched", "others"),
    [
        ("orders", ["orders"], ["orders2", "xorders", "Orders"]),
        ("orders, clicks", ["orders", "clicks"], ["orders,clicks"]),
        ("'white.*'", ["white", "white_1"], ["black"]),
        (".*", ["a", "a.b"], []),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"a\.b", ["a.b"], ["axb"]),
        (r"\p{Alpha}+", ["abc", "ABC"], ["a1", "é"]),
        (r"\P{Alpha}+", ["12", "é"], ["a1"]),
        (r"[\p{Upper}_]+", ["A_"], ["a"]),
        (r"[^\P{Digit}]+", ["12"], ["a"]),
        (r"(?<env>prod|test)-\k<env>", ["prod-prod"], ["prod-test"]),
        (r"(a|b)-\1", ["a-a"], ["a-b"]),
        (r"a(?i)b|c", ["ab", "aB", "C"], ["Ab"]),
        (r"(?:(?i)a)b", ["Ab"], ["AB"]),
        (r"(?i:a)b", ["Ab"], ["AB"]),
        (r"(?i)a(?-i)b", ["Ab"], ["AB"]),
        (r"(?i)[^a]", ["b"], ["a", "A"]),
        (r"(?msd)a", ["a"], ["A"]),
        (r"\x41\x{42}\u0043\0104", ["ABCD"], []),
        (r"a\z", ["a"], ["aa"]),
        (r"^a$", ["a"], ["aa"]),
        (r"a\Z", ["a"], []),
        (r"a*+a", [], ["aa"]),
        (r"(?>a*)b", ["aab"], ["a"]),
        (r"[a-]+[-a]+[\w.]", ["a-a."], []),
        (r"a]}", ["a]}"], []),
        (r"(?!__).*", ["orders"], ["__consumer_offsets"]),
        (r"\d+", ["12"], ["١٢"]),
        (r"a\hb", ["a\tb", "a\u3000b"], ["a_b"]),
        ("", [""], ["a"]),
    ],
)
def test_filter_chooses_what_java_chooses(text: str, matched: list[str], others: list[str]) -> None:
    pattern = topic_filter(text)
    assert [name for name in matched if not pattern.matches(name)] == []
    assert [name for name in others if pattern.matches(name)] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("*", r"a topic filter is a Java regular expression; write \.\*"),
        ("*orders", r"write \.\*"),
        ("a|*", r"write \.\*"),
        ("[a&&b]", "Python has no intersections"),
        ("[a[b]]", "no classes in classes"),
        (r"\p{L}", r"\\p\{L\}: only Java's ASCII classes"),
        (r"\pL", "only Java's ASCII classes"),
        (r"\p{IsAlphabetic}", "only Java's ASCII classes"),
        (r"(?i)\p{Lower}", "versions of Java differ"),
        (r"\G", "previous match"),
        (r"\R", "line end"),
        (r"\X", "grapheme"),
        (r"\v", "vertical"),
        (r"\y", "not an escape in Java"),
        (r"\b{g}", "older Java"),
        ("(?u)a", r"\(\?u\)"),
        ("(?x)a", "blanks"),
        ("(?P<n>a)", "no group that Java knows"),
        ("(?#c)a", "no group that Java knows"),
        ("(a", r"a \( without its \)"),
        ("a)", r"a \) without its \("),
        ("[a", r"a \[ without its \]"),
        ("[]a]", r"write \\\]"),
        ("[z-a]", "before it begins"),
        (r"[a-\d]", "ends with a class"),
        (r"[\d-a]", "begins with a class"),
        (r"[\b]", "inside"),
        ("a{", "no count"),
        ("{2}", "repeats nothing"),
        ("a**", "one repetition of another"),
        ("a{2}{3}", "one repetition of another"),
        ("a{1000000}", "more than any name is long"),
        ("a\\", "ends too early"),
        (r"\1(a)", "does not end before it"),
        (r"(?:(a)|b)+\1", "inside a repetition"),
        (r"(?<=a+)b", "looks behind for texts of different lengths"),
        ("(" * 60 + ")" * 60, "50 deep"),
        ("[b-\u0100]" * 101, "100 ranges of characters beyond"),
        (r"\H" * 101, "100 ranges of characters beyond"),
        (r"\ud83d", "not a character"),
        (r"\x{110000}", "not a character"),
        (r"\xg1", "not hexadecimal digits"),
        (r"\09", "octal"),
        (r"(?<1>a)", "cannot name a group"),
        (r"(?<a>a)(?<a>b)", "cannot name a group"),
    ],
)
def test_what_may_be_read_differently_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(PatternRefused, match=why) as raised:
        topic_filter(text)
    assert repr(text)[:190] in str(raised.value)


def test_a_hundred_wide_ranges_and_any_number_of_narrow_ones_are_read() -> None:
    assert topic_filter("[b-\u0100]" * 100).matches("\xfc" * 100)
    assert topic_filter("[a-z]" * 200).matches("a" * 200)


@given(NAME, NAME)
def test_quoted_name_matches_itself_only(name: str, other: str) -> None:
    assert bool(topic_filter(rf"\Q{name}\E").matches(other)) == (name == other)


@given(st.lists(NAME, min_size=1, max_size=5), NAME)
def test_comma_list_is_the_set_of_its_names(names: list[str], other: str) -> None:
    text = ",".join(name.replace(".", r"\.") for name in names)
    pattern = topic_filter(text)
    assert all(pattern.matches(name) for name in names)
    assert bool(pattern.matches(other)) == (other in names)


@given(st.text(max_size=40))
def test_any_text_is_a_pattern_or_refused_by_name(text: str) -> None:
    refusal = "topic filter "
    try:
        to_python(text).matches(text)
    except PatternRefused as exc:
        refusal = str(exc)
    assert refusal.startswith("topic filter ")


@given(st.text(st.sampled_from(list("ab01.*+?{},|()[]^$\\-&<>:=!ipQEdwb")), max_size=25), NAME)
def test_strange_patterns_end_in_an_answer(text: str, name: str) -> None:
    try:
        pattern = to_python(text)
    except PatternRefused:
        return
    pattern.matches(name)


@pytest.mark.parametrize("name", POSIX)
def test_posix_class_and_its_complement_share_every_character(name: str) -> None:
    inside, outside = to_python(rf"\p{{{name}}}"), to_python(rf"\P{{{name}}}")
    for code in [*range(300), 0x2028, 0xFFFF, 0x10FFFF]:
        assert bool(inside.matches(chr(code))) != bool(outside.matches(chr(code)))


SLOW = [
    r"(.|.)*!",
    r"((a*)*)*b",
    r"(a|aa)+b",
    r".*a.*a.*a.*a.*a.*b",
    r"(?:(?!.*.*.*!).)*b",
    r"(?<!(.|.|.|.){9})(.|.)*b",
    r"((((a?){1,65535}){1,65535}){1,65535}){1,65535}b",
]


@pytest.mark.parametrize("text", SLOW)
def test_a_pattern_that_backtracks_for_ever_is_answered_in_few_steps(text: str) -> None:
    began = time.process_time()
    assert not to_python(text).matches("a" * 255)
    assert time.process_time() - began < 5  # backtracking takes years; this takes milliseconds


def test_a_name_that_takes_too_many_steps_is_refused() -> None:
    with pytest.raises(PatternRefused, match="too many steps to tell whether 'aaa"):
        to_python("(?:(?:(?:a|.)*b|.)*c|.)*d").matches("a" * 255)


@pytest.mark.parametrize("read_on", ["|" * 2000, ("|" + "a" * 200) * 300], ids=["nothing", "characters"])
def test_alternatives_and_characters_count_as_steps(read_on: str) -> None:
    pattern, began = to_python(f"(?:(?=(?:a{read_on})*)a)*!"), time.process_time()
    with pytest.raises(PatternRefused, match="too many steps"):
        pattern.matches("a" * 255)
    assert time.process_time() - began < 0.5  # without the count 4 s and 1 s; with it some hundredths


def test_what_cannot_be_told_in_bounded_time_is_refused_before_there_is_a_name() -> None:
    with pytest.raises(PatternRefused, match=r"\(\.\|\.\)\*\+!.*possessive"):
        to_python("(.|.)*+!")
    with pytest.raises(PatternRefused, match="70000 characters are more than 65536"):
        to_python("a" * 70000)


LONG = "(?i)x-(?:y|z)\\d+|" + "|".join(f"topic-{n}[ab]?" for n in range(4000)) + "|(?!topic)[t-z].{2}"


def test_others_run_while_a_long_filter_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KiB of another member's filter took 0.4 s of the event loop in one go: half of it `re`, which is one call."""
    pauses, compiled = [], []
    compile_ = re.compile
    monkeypatch.setattr("groundwork.pauses._pause", lambda: pauses.append(1))
    monkeypatch.setattr(re, "compile", lambda text, flags=0: compiled.append(len(text)) or compile_(text, flags))
    pattern = to_python(LONG)
    assert len(pauses) > 2 * len(LONG) // 1024 - 3
    assert max(compiled, default=0) < 100
    chosen = [name for name in ("topic-3999", "TOPIC-7A", "x-z55", "ttt") if pattern.matches(name)]
    assert chosen == ["topic-3999", "TOPIC-7A", "x-z55", "ttt"]
    assert not [name for name in ("topic-4000", "topic-7c", "ax-z", "to") if pattern.matches(name)]
    assert pattern.found_in("a-topic-12")


def test_a_long_filter_that_only_backtracking_could_match_is_refused() -> None:
    with pytest.raises(PatternRefused, match="back references"):
        to_python(f"{LONG}|(a)\\1")


@pytest.mark.parametrize("text", ["(?<=a+)b", "(?<!ab|c)b", "a{3,2}"])
def test_what_python_cannot_compile_is_refused_however_long_the_filter_is(text: str) -> None:
    for filter_ in (text, f"{LONG}|{text}"):
        with pytest.raises(PatternRefused, match=r"behind for texts of different|more often than"):
            to_python(filter_)


def test_a_name_that_backtracking_can_tell_in_ten_milliseconds_is_not_refused() -> None:
    words = "|".join(f"w{n:03}abcd" for n in range(200))
    but_words = to_python(f"(?:(?!{words}).)*")
    assert javamatch.QUICK < but_words._cost(255) <= javamatch.PATIENT
    assert but_words.matches("a" * 250)
    assert not but_words.matches("a" * 240 + "w001abcd")
    alternatives = to_python(f"(?:{'|'.join(f'(?:w{n:02}|w{n:02}a)(?:b|c|d)' for n in range(90))}|a)!")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(javamatch, "QUICK", 0)
        patched.setattr(javamatch, "NAME_STEPS", 10)
        assert alternatives.found_in("xa!")


def test_names_that_are_longer_than_kafkas_match_nothing() -> None:
    assert to_python(".*").matches("a" * 255)
    assert not to_python(".*").matches("a" * 256)


PIECES = [
    *("a", "b", ".", "^", "$", "|", ")", ")", ")", "*", "+", "?", "*?", "{2}", "{1,2}", "{0,}", r"\w", r"\b", "[ab]"),
    *("(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(a|b)", "(.|.)", "(?i:A)"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=9), st.text(st.sampled_from("abB."), max_size=6))
def test_following_all_places_finds_what_backtracking_finds(pieces: list[str], name: str) -> None:
    try:
        pattern = to_python("".join(pieces))
    except PatternRefused:
        return
    by_backtracking = re.compile(pattern.python, re.ASCII)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(javamatch, "QUICK", 0)
        assert pattern.matches(name) is (by_backtracking.fullmatch(name) is not None)
        assert pattern.found_in(name) is (by_backtracking.search(name) is not None)
