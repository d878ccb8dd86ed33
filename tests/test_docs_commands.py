"""Commands that the pages show exist, with their flags, whether or not a test runs them."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.docpages import PAGES, blocks
from tests.fakes.helppages import code_of_help

OURS = re.compile(
    r"(?:[A-Z_]+=\S+ )?((?:mirrormaker|zkconsumer|zkproducer|sparkpipeline|zk-[a-z-]+|python -m kafkawire) .*)"
)
END = re.compile(r"\s{2,}| [<>#|] | < | or -b")  # of a command: what it is for, a redirection, an alternative


def commands() -> list[str]:
    found = set()
    for page in PAGES:
        for block in (block.text for block in blocks(page) if block.language in ("", "console", "sh")):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                command = OURS.fullmatch(line.removeprefix("$ ").strip())
                if command is not None and "|" not in command[1].split("  ")[0].replace("'", ""):
                    found.add(END.split(re.sub(r"\[(.*?)\]", r"\1", re.sub(r" {2,}(?=--)", " ", command[1])))[0])
    return sorted(found)


def test_the_pages_show_commands() -> None:
    shown = commands()
    assert len(shown) > 40
    assert "mirrormaker run orders.yaml" in shown


@pytest.mark.parametrize("command", commands())
def test_every_command_exists_with_its_flags(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert code_of_help(shlex.split(command)) == 0, capfd.readouterr().err
