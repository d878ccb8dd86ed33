"""Bytes as other programs print them are read back; what is not known is refused, never taken for Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkawire.__main__ import main
from kafkawire.decode.texts import from_text

DATA = bytes([0, 1, 10, 34, 39, 92, 65, 127, 128, 255] * 2)
HEX = DATA.hex()
FORMS = {
    "hex": HEX,
    "0x": "0x" + HEX,
    "0x in a list": ", ".join(f"0x{octet:02x}" for octet in DATA),
    "colons": DATA.hex(":"),
    "hexdump -C": "00000000  00 01 0a 22 27 5c 41 7f  80 ff 00 01 0a 22 27 5c  |...\"'\\A......\"'\\|\n"
    "00000010  41 7f 80 ff                                       |A...|\n00000014",
    "xxd": "00000000: 0001 0a22 275c 417f 80ff 0001 0a22 275c  ...\"'\\A......\"'\\\n00000010: 417f 80ff  A...",
    "Python": repr(DATA),
    "bytearray": repr(bytearray(DATA)),
    "a list of Python": str(list(DATA)),
    "Go": "[" + " ".join(map(str, DATA)) + "]",
    "Go's source": "[]byte{" + ", ".join(map(hex, DATA)) + "}",
    "Java": str([octet - 256 if octet > 127 else octet for octet in DATA]),
    "Node": "<Buffer " + DATA.hex(" ") + ">",
    "Ruby": '"\\x00\\x01\\n\\"\'\\\\A\\x7F\\x80\\xFF\\u0000\\u0001\\n\\"\'\\\\A\\u007F\\x80\\xFF"',
    "base64": "AAEKIidcQX+A/wABCiInXEF/gP8=",
    "Erlang": "<<" + ",".join(map(str, DATA)) + ">>",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_a_program_prints_is_read_back(form: str) -> None:
    assert from_text(FORMS[form] + "\n") == DATA


@pytest.mark.parametrize(
    "text", ["00000000  00 01\n*\n00000020", "<Buffer 00 01 ... 50 more bytes>", "[1, 256]", "hello"]
)
def test_a_text_of_another_form_or_with_something_left_out_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(text)
    asked = ["decode", "--protocol", "0.8.2", "--kind", "message-set", str(tmp_path / "text")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2
    assert "is text in an unknown form; known: hex" in done.output


def test_the_other_files_of_a_log_are_named_for_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.index"
    path.write_bytes(bytes(16))
    done = CliRunner().invoke(main, ["decode", "--protocol", "0.8.2", "--kind", "log", str(path)])
    assert done.exit_code == 2
    assert "an offset index: offsets of messages and their byte positions in the segment; the messages" in done.output
