"""The JVM decides: java.util.regex, java.util.Properties, hashCode and TopicFilter's text rules against ours."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from groundwork.java import PatternRefused, bytes_hash, filter_text, read_properties, string_hash
from groundwork.javaregex import to_python

_spec = importlib.util.spec_from_file_location("java_oracle", Path(__file__).with_name("java_oracle.py"))
assert _spec is not None
assert _spec.loader is not None
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

pytestmark = pytest.mark.real

# One part a word.
PARTS = r"""
    a b A B 0 1 . . . | | | ( ( ) ) ) ) _ - # ~ & / \\ \_ \< \- { } [ ] * + ? *? *+ ++ ?+ {2} {1,2} {0,} {,2} {1,2}+
    \d \w \W \s \S \h \H \p{Alpha} \P{Alpha} \p{Punct} \p{L} \pL \p{IsAlphabetic} [ab] [^ab] [a-z] [a-] [-a] [a-c-e]
    [\w.] [^\d] [+--] [a^] [$] []a] [a&&b] [a[b]] [a-\d] [\Q^-]\E] [\x41-\x43] [^\P{Alpha}] [\h] [\p{Upper}_]
    \b \B ^ $ \A \z \Z \e \x41 \x{61} \u0062 \0101 \cA \Qa.b\E \Q[\E \E \y \R \v
    (?: (?i: (?= (?! (?<= (?<! (?> (?<n> (a) (ab|a) \1 \2 \11 \k<n> (?i) (?-i) (?m) (?x)
"""
NAMES = """
    a b A ab aB ba a.b a-b a_b orders Orders x1 01 a0b1 __consumer_offsets aa bb abab AAA b.a.b a- 1a aab - . _
    clicks-eu clicks-us prod.orders test.orders a1 b1 A1 0 00 abc a..b -a
"""
HAND_WRITTEN = r"""
    orders orders|clicks .* prod\..* (prod|test)\.orders (?!__).* clicks-(?:eu|us) [a-z]+ \w+ [^_].* .*[0-9]
    (?i)ORDERS a(?i)b|A ((?i)a)b (?i:a)b \Qa.b\E a{2} (a|b){2,3} a*+b (?>a|ab)b (a)-?\1 (?<x>a)b\k<x> [\w.-]+ \p{Lower}+
    [\p{Alpha}_]+ \b\w+\b (?<=a)b a(?=b).* .*(?<!_offsets)
"""


def random_patterns(count: int, seed: int) -> list[str]:
    rng, parts = random.Random(seed), PARTS.split()
    return ["".join(rng.choice(parts) for _ in range(rng.randint(1, 6))) for _ in range(count)]


def test_patterns_choose_the_same_names_as_java_or_are_refused() -> None:
    names = NAMES.split()
    patterns = [*HAND_WRITTEN.split(), *random_patterns(6000, seed=8)]
    answers = oracle.ask_java([("match", pattern, *names) for pattern in patterns])
    compared = 0
    for pattern, answer in zip(patterns, answers, strict=True):
        try:
            ours = to_python(pattern)
        except PatternRefused:
            assert pattern not in HAND_WRITTEN.split()
            continue
        assert answer is not None, f"Java refuses {pattern!r} and we do not"
        found = "".join("1" if ours.matches(name) else "0" for name in names)
        assert found == answer, (
            f"{pattern!r} chooses other names: {[n for n, a, b in zip(names, found, answer, strict=True) if a != b]}"
        )
        compared += 1
    assert compared >= 1000


def test_filter_texts_are_trimmed_as_by_the_original() -> None:
    rng = random.Random(4)
    texts = ["".join(rng.choice("ab,. '\"\t\x01|*") for _ in range(rng.randint(0, 10))) for _ in range(1000)]
    answers = oracle.ask_java([("filter", text) for text in texts])
    for text, answer in zip(texts, answers, strict=True):
        assert filter_text(text) == oracle.plain(answer), repr(text)


def test_properties_are_read_as_by_java() -> None:
    rng = random.Random(5)
    pieces = [*"ab=:#! \t\f\\é", *["\n"] * 2, "\r", "\r\n", "\\\n", "\\\r\n", "\\u0041", "\\u00", "\\t", "\\ ", "\\\\"]
    texts = ["".join(rng.choice(pieces) for _ in range(rng.randint(0, 14))) for _ in range(6000)]
    answers = oracle.ask_java([("properties", text) for text in texts])
    refused = 0
    for text, answer in zip(texts, answers, strict=True):
        if answer is None:
            refused += 1
            with pytest.raises(ValueError, match="hexadecimal"):
                read_properties(text)
            continue
        pairs = dict(tuple(map(oracle.plain, pair.split(":"))) for pair in answer.split())
        assert read_properties(text) == pairs, repr(text)
    assert 0 < refused < 3000


def test_hashes_are_those_of_java() -> None:
    rng = random.Random(6)
    texts = [
        "".join(chr(rng.choice([97, 0xE9, 0x20AC, 0x1F600, rng.randint(0, 0xD7FF)])) for _ in range(rng.randint(0, 12)))
        for _ in range(500)
    ]
    answers = oracle.ask_java([*(("string", text) for text in texts), *(("bytes", text) for text in texts)])
    assert [int(answer) for answer in answers] == [*map(string_hash, texts), *(bytes_hash(t.encode()) for t in texts)]
