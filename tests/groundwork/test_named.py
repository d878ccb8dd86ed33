"""Functions named in a configuration."""

from __future__ import annotations

import pytest

from groundwork.named import NotLoaded, load_named


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("json.dumps", "message.handler 'json.dumps' is not of the form package.module:function"),
        ("json:nothing", "message.handler 'json:nothing': json has no nothing"),
        ("json:__doc__", "message.handler 'json:__doc__': __doc__ cannot be called, it is a str"),
        (
            "no_such:f",
            "message.handler 'no_such:f': importing no_such failed: ModuleNotFoundError: No module named 'no_such'",
        ),
    ],
)
def test_a_function_that_cannot_be_had_is_one_sentence(named: str, why: str) -> None:
    with pytest.raises(NotLoaded) as missing:
        load_named("message.handler", named)
    assert str(missing.value) == why


def test_a_function_is_found_by_its_name() -> None:
    assert load_named("message.handler", "json.decoder:JSONDecoder.decode").__name__ == "decode"
