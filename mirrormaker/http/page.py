"""Status page: one file, page.html, which requests nothing but /status and /history.

Its Content-Security-Policy allows exactly the style and the script in the file, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from groundwork.httpserver import Response

FILE = "page.html"


@cache
def page() -> Response:
    """Return the page, with headers that forbid any other content."""
    body = files(__package__).joinpath(FILE).read_bytes()
    return Response(
        200,
        body,
        "text/html; charset=utf-8",
        {
            "Content-Security-Policy": policy(body.decode()),
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        },
    )


def policy(html: str) -> str:
    """Return the Content-Security-Policy for a page: its own style and script, and requests to its own origin."""
    allowed = {
        tag: " ".join(f"'sha256-{_sha256(text)}'" for text in re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL))
        for tag in ("style", "script")
    }
    return (
        f"default-src 'none'; script-src {allowed['script']}; style-src {allowed['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
