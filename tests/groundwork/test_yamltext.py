"""A YAML text: what YAML would pass over in silence is told."""

import pytest

from groundwork.optionfiles import YamlRefused, yaml_values


def test_values_are_those_of_safe_load():
    assert yaml_values("a: [1, two]\nb: {c: &x {d: 1}, e: *x}\n") == {
        "a": [1, "two"],
        "b": {"c": {"d": 1}, "e": {"d": 1}},
    }
    assert yaml_values("# nothing\n") is None


def test_keys_given_twice_are_told_in_the_order_of_the_text_however_deep():
    with pytest.raises(YamlRefused) as refused:
        yaml_values("a:\n  b: 1\n  b: 2\nc:\n- d: 1\n  d: 2\n")
    assert refused.value.problems == [
        "line 3: 'b' is given twice, first in line 2",
        "line 6: 'd' is given twice, first in line 5",
    ]


@pytest.mark.parametrize("text", ["a: [", "when: 2026-13-45", "a: !!python/object:os.system {}"])
def test_what_is_no_yaml_is_one_sentence(text):
    with pytest.raises(YamlRefused) as refused:
        yaml_values(text)
    (problem,) = refused.value.problems
    assert problem.startswith("not YAML: ")
    assert "\n" not in problem


def test_mappings_nested_deeply_need_no_deep_stack():
    with pytest.raises(YamlRefused, match="line 1: 'z' is given twice"):
        yaml_values("{a: " * 100 + "{z: 1, z: 2}" + "}" * 100)


def test_values_nested_too_deeply_are_refused_in_a_sentence() -> None:
    with pytest.raises(YamlRefused, match="nested too deeply"):
        yaml_values("a: " + "[" * 5000)
