from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.java import PatternRefused, bytes_hash, filter_text, read_properties, string_hash, topic_filter

INT32 = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[t,0]", 87540032),
        ("polygenelubricants", -(2**31)),
        ("orders", -1008770331),
        ("", 0),
        ("a", 97),
        ("😀", 1772899),
    ],
)
def test_string_hash_is_the_jvms(text: str, value: int) -> None:
    assert string_hash(text) == value


@pytest.mark.parametrize(
    ("data", "value"), [(b"key", 135870), (b"orders", -121266650), (b"", 1), (b"\xff", 30), (b"\x80", -97)]
)
def test_bytes_hash_is_the_jvms(data: bytes, value: int) -> None:
    assert bytes_hash(data) == value
    assert bytes_hash(memoryview(data)) == value


@given(st.binary(), st.binary(max_size=3))
def test_hash_of_a_longer_text_follows_from_the_shorter(head: bytes, tail: bytes) -> None:
    expected = bytes_hash(head)
    for byte in tail:
        expected = (expected * 31 + (byte - 256 if byte > 127 else byte) + 2**31) % 2**32 - 2**31
    assert bytes_hash(head + tail) == expected
    assert -(2**31) <= expected < 2**31


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("  a  =  b  ", {"a": "b  "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("# c\n! d\n\n  # e\na=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=b\\\n", {"a": "b"}),
        ("a=b\n\\", {"a": "b", "": ""}),
        ("a=b\n\\\n", {"a": "b", "": ""}),
        ("a=b\n\\\r\n", {"a": "b"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("# comment \\\na=b", {"a": "b"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("\\\n#k=v", {}),  # newer Java: a comment, for nothing stands before it
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u0041", {"a": "éA"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("path=C:\\\\kafka", {"path": "C:\\kafka"}),
        ("zookeeper.connect=z1:2181,z2:2181/kafka", {"zookeeper.connect": "z1:2181,z2:2181/kafka"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, found: dict[str, str]) -> None:
    assert read_properties(text) == found


def test_properties_bytes_are_latin_1() -> None:
    assert read_properties(b"a=\xe9") == {"a": "é"}


@pytest.mark.parametrize("text", ["x=1\na=\\u12", "x=1\na=\\u12g4", "x=1\n\\u=a"])
def test_broken_unicode_escape_names_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2: .*four hexadecimal digits"):
        read_properties(text)


KEY = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8)


def stored(text: str) -> str:
    """As java.util.Properties.store writes it: every character that could be special escaped."""
    units = text.encode("utf-16-be")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04X}" for code in codes)


@pytest.mark.thorough
@given(st.dictionaries(KEY, KEY, max_size=5), st.sampled_from(["=", ":", " ", " = ", "\t:\f"]))
def test_what_is_stored_is_read_back(pairs: dict[str, str], separator: str) -> None:
    assert read_properties("\n".join(stored(k) + separator + stored(v) for k, v in pairs.items())) == pairs


@given(st.text(st.sampled_from("ab=:\\#! \t\r\nu0"), max_size=30))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    refusal = "line "
    try:
        read_properties(text)
    except ValueError as exc:
        refusal = str(exc)
    assert refusal.startswith("line ")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (" a , b ", "a|b"),
        ('"orders.*"', "orders.*"),
        ("'\"a\"'", "a"),
        ("\ta\x00", "a"),
        ("a 'b' c", "a'b'c"),
        ("a{1,2}", "a{1|2}"),
        ("", ""),
    ],
)
def test_text_of_a_filter_follows_the_originals_rules(raw: str, text: str) -> None:
    assert filter_text(raw) == text


def test_a_count_with_a_comma_in_a_topic_filter_is_told_what_the_comma_means() -> None:
    """It said: a { that begins no count such as {2,3}."""
    with pytest.raises(PatternRefused) as wrong:
        topic_filter("a{2,3}")
    assert str(wrong.value) == (
        "topic filter 'a{2,3}': a comma means '|' in a topic filter, in {2,3} too: write the choices out, as a{2}|a{3}"
    )
    assert topic_filter("a{2}|a{3}").matches("aaa")


def test_the_mark_that_editors_begin_a_file_with_is_no_part_of_the_first_key() -> None:
    for begun in (b"\xef\xbb\xbf", "\ufeff"):
        text = begun + (b"a.b=1\n" if isinstance(begun, bytes) else "a.b=1\n")
        assert read_properties(text) == {"a.b": "1"}
    with pytest.raises(ValueError, match="it is UTF-16: save it as UTF-8"):
        read_properties("a=1".encode("utf-16"))
