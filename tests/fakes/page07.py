"""docs/from-0.7.md as tests read it: its blocks, and the commands in them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "from-0.7.md").read_text(encoding="utf-8")
STEPS, _ = PAGE.split("\n## Consumers on 0.7\n")
JOIN = re.compile(r"\\\n\s*")  # a command that goes on in the next line
OURS = ("mirrormaker", "zkconsumer", "zkproducer", "zk-offset-checker", "python")


def blocks(kind: str, text: str = PAGE) -> list[str]:
    return [block for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
            if language == kind]  # fmt: skip


def commands(text: str = PAGE) -> list[str]:
    """Every command of a block, in order, without its comment."""
    lines = [
        line for kind in ("sh", "console") for block in blocks(kind, text) for line in JOIN.sub(" ", block).splitlines()
    ]
    lines = [line.removeprefix("$ ").partition("  #")[0].strip() for line in lines]
    return [line for line in lines if line.split(" ")[0] in OURS]
