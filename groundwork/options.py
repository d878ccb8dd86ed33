"""Options: a dataclass field holds key, default, unit and meaning for loading, checking and the reference page.

    @dataclass(frozen=True, slots=True)
    class FetchOptions(Options):
        JVM_ONLY = {"socket.send.buffer": "our links size their own buffers"}
        fetch_size: int = option("fetch.message.max.bytes", 1048576, "most of one partition in a fetch", "bytes",
                                 old="fetch.size")

    load(FetchOptions, yaml_file(path), "mirror.yaml")                        # typed values; sections are mappings
    load(FetchOptions, properties_file(path), "old.properties", jvm=True)     # every value is text

A field's annotation is its type: bool, int, float, str, tuple[str, ...] (as text: `a, b`), X | None, another class of
options (a section), tuple[Section, ...] (a list of sections) or dict[str, Section] (named sections).

What options must not say together is in problems() of their class, and which are idle beside others in idle().
OptionError holds every problem of a file; each is one sentence that names file, option and value, and for an unknown
key the one that is meant.  What is merely ignored is a warning: warnings_of().
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from groundwork.optionvalues import (
    MASK,
    BadValue,
    Kind,
    Option,
    SecretUnreadable,
    code,
    show_value,
    value_of,
    without_none,
)
from groundwork.sentences import did_you_mean

C = TypeVar("C", bound="Options")
V = TypeVar("V")
CLASS = "class"  # kind of an option that names code: MODULE:NAME, or a JVM class listed in JVM_CLASSES
ERROR, WARN = "error", "warn"  # how unknown keys are treated


class OptionError(ValueError):
    """The problems of a file of options; .problems has one sentence for each.

    forbidden   a file that an option names may not be read by this user
    warnings    sentences about the rest of the file
    partial     the options with defaults in place of what is wrong, for checks of what is right; None where there can
                be none.  It never runs
    """

    def __init__(
        self,
        problems: Sequence[str],
        forbidden: bool = False,
        warnings: Sequence[str] = (),
        partial: Options | None = None,
    ) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
        self.forbidden = forbidden
        self.warnings = list(warnings)
        self.partial = partial


class Secret:
    """A text that is masked when printed; .text is the text itself.

    .file is the path that it was read from, or "" if the configuration itself has it.
    """

    __slots__ = ("file", "text")

    def __init__(self, text: str, file: str = "") -> None:
        self.text = text
        self.file = file

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Options:
    """Base of every class of options.

    JVM_ONLY      keys of the original client that have no effect here, with the reason: a warning and not an error
    JVM_CLASSES   for options of kind CLASS, by key: class names of the original client and their equivalent here
    NOT_LOADED    keys of options of kind CLASS that have no effect in this class: any value is accepted
    NEWER         keys of the JVM's newer client and the equivalent here, its key first; one that is also a key of this
                  class is refused beside others of them, because it means something else there
    MEANT         keys that people take for an option of this class, and that option
    REFUSED       keys that other clients have and this class does not, with what to write instead
    ONLY          keys that may have one value alone, with that value and the reason
    ANY_CASE      keys are taken in any case, as Spark hands them over
    PREFIX, BEFORE  replace `{prefix}` and `{before}` in keys and meanings of options that several classes inherit
    SECTION       the beginning of the keys of this class as pages and messages write them outside of their section
                  (`mirror.`); the section takes a key with it, too
    """

    __slots__ = ("_given", "_warnings")
    JVM_ONLY: ClassVar[Mapping[str, str]] = {}
    JVM_CLASSES: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    NOT_LOADED: ClassVar[frozenset[str]] = frozenset()
    NEWER: ClassVar[Mapping[str, str]] = {}
    MEANT: ClassVar[Mapping[str, str]] = {}
    REFUSED: ClassVar[Mapping[str, str]] = {}
    ONLY: ClassVar[Mapping[str, tuple[str, str]]] = {}
    ANY_CASE: ClassVar[bool] = False
    PREFIX: ClassVar[str] = ""
    BEFORE: ClassVar[str] = ""
    SECTION: ClassVar[str] = ""

    def problems(self) -> Iterable[str]:
        """Return conflicts between options that are each valid: sentences without the file's name."""
        return ()

    def idle(self) -> Iterable[tuple[str, str]]:
        """Return keys that are given and have no effect beside the others, each with the reason: `with …`."""
        return ()


def option(
    key: str,
    default: Any,
    meaning: str,
    unit: str = "",
    *,
    old: str | Sequence[str] | None = None,
    kind: Kind | str | None = None,
    choices: Sequence[Any] | None = None,
    required: bool = False,
    least: float | None = None,
    secret: bool = False,
    instead: str | Sequence[str] = (),
    behind: str = "",
    newer: Mapping[str, str] | None = None,
) -> Any:
    """Return a field of an Options class.

    old       the key's names in 0.7
    kind      a function from the raw value (text, in a JVM file) to the field's value, or CLASS; it raises
              ValueError("what it expected")
    choices   the only values allowed; texts match in any case
    required  the key must be given: load() and the class have no default for it
    least     smallest number allowed
    secret    the value is masked in output; kind makes a Secret of it
    instead   other keys; any one may be given instead: then a required option has its default
    behind    the key after which the reference page lists this one (default: the order of the fields)
    newer     values of the JVM's newer client and their equivalents here: taken in a JVM file, elsewhere named by the
              error
    """
    olds = (old,) if isinstance(old, str) else tuple(old or ())
    spec = Option(
        key=key,
        meaning=meaning,
        unit=unit,
        old=olds,
        kind=kind,
        choices=tuple(choices or ()),
        required=required,
        least=least,
        secret=secret,
        instead=(instead,) if isinstance(instead, str) else tuple(instead),
        behind=behind,
        newer=tuple((newer or {}).items()),
    )
    if required and not instead:
        return dataclasses.field(kw_only=True, metadata={"option": spec})
    if isinstance(default, (dict, list)):
        return dataclasses.field(
            default_factory=lambda: type(default)(default), kw_only=True, metadata={"option": spec}
        )
    return dataclasses.field(default=default, kw_only=True, metadata={"option": spec})


def load(
    cls: type[C],
    values: Mapping[str, object],
    where: str,
    jvm: bool = False,
    unknown: str = ERROR,
    names: Mapping[str, str] | None = None,
) -> C:
    """Return an instance of `cls` from a file's values.  Raises OptionError with all problems of the file.

    where    the file's name, at the start of every sentence
    jvm      the values are texts, from a .properties file
    unknown  how unknown keys are treated: ERROR, or WARN as the JVM does
    names    other names that options of `cls` have in this file, each with the key here
    """
    reading = _Reading(jvm, unknown, names or {})
    instance = reading.section(cls, values, where)
    if instance is not None:
        object.__setattr__(instance, "_warnings", tuple(reading.warnings))
    if reading.problems or instance is None:
        raise OptionError(reading.problems, reading.forbidden, reading.warnings, instance)
    return cast(C, instance)


def warnings_of(instance: Options) -> list[str]:
    """Return the warnings of load() and of its sections: sentences."""
    return list(getattr(instance, "_warnings", ()))


def given(instance: Options) -> frozenset[str]:
    """Return the keys (current names) that the file set; all others have their defaults."""
    return getattr(instance, "_given", frozenset())


def specs(cls: type[Options]) -> dict[str, Option]:
    """Return the options of a class by field name, in the order of the reference page."""
    return dict(_specs(cast(Any, cls)))


def spelled(cls: type[Options], values: Mapping[Any, V]) -> dict[Any, V]:
    """Return the values under their keys as the class spells them; unknown keys stay as they are."""
    if not cls.ANY_CASE:
        return dict(values)
    known = {key.lower(): key for key in (*_names(cls), *cls.JVM_ONLY, *cls.REFUSED, *cls.ONLY)}
    return {known.get(key.lower(), key) if isinstance(key, str) else key: value for key, value in values.items()}


def _names(cls: type[Options]) -> dict[str, str]:
    """Return the current key for every name that an option of the class has."""
    return {name: spec.key for spec in specs(cls).values() for name in (spec.key, *spec.old)}


@cache
def _hints(cls: type[Any]) -> Mapping[str, Any]:
    return typing.get_type_hints(cast(Any, cls))


@cache
def _specs(cls: type[Any]) -> Mapping[str, Option]:
    fields = (f for f in dataclasses.fields(cls) if "option" in f.metadata)
    found = {f.name: f.metadata["option"].under(prefix=cls.PREFIX, before=cls.BEFORE) for f in fields}
    place = {spec.key: n for n, spec in enumerate(found.values())}

    def order(named: tuple[str, Option]) -> tuple[int, bool]:
        spec = named[1]
        return place.get(spec.behind, place[spec.key]), spec.behind in place

    return dict(sorted(found.items(), key=order))


class _Reading:
    """State of one load(): problems and warnings so far."""

    def __init__(self, jvm: bool, unknown: str, names: Mapping[str, str]) -> None:
        self.jvm = jvm
        self.unknown = unknown
        self.names = names
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.forbidden = False

    def section(self, cls: type[Options], values: object, where: str) -> Options | None:
        """Return an instance of a mapping, with defaults for options that have problems; None if it cannot be made."""
        if not isinstance(values, Mapping):
            self.problems.append(f"{where}: expected options as a mapping, got {show_value(values)}")
            return None
        by_field = specs(cls)
        new_name = {f"{cls.SECTION}{spec.key}": spec.key for spec in by_field.values()}
        new_name |= _names(cls) | dict(self.names)
        values = spelled(cls, values)
        ignored, unsaid = self._unknown(cls, new_name, values, where)
        values = {key: value for key, value in values.items() if key not in ignored}
        hints = _hints(cast(Any, cls))
        found: dict[str, Any] = {}
        wrong: set[str] = set()
        for name, spec in by_field.items():
            before = len(self.problems)
            keys = [key for key in values if new_name.get(key) == spec.key]
            keys.sort(key=lambda key: key != spec.key)  # the current name first
            if valid := self._one(cls, spec, hints[name], keys, values=values, where=where):
                found[name] = valid[0]
            if len(self.problems) > before:
                wrong.add(name)
                unsaid.update((spec.key, *spec.old, *keys))
        given = frozenset(by_field[name].key for name in found)
        for name in wrong:
            if by_field[name].required and name not in found:
                found[name] = _placeholder(hints[name])
            if _section_of(hints[name]) is not None and _lacks_any(found.get(name)):
                return None
        instance = cls(**found)
        object.__setattr__(instance, "_given", given)
        conflicts = [sentence for sentence in instance.problems() if not _names_any(sentence, unsaid)]
        self.problems += [f"{where}: {sentence}" for sentence in conflicts]
        if not wrong and not conflicts:
            self.warnings += [f"{where}: option '{key}' has no effect {why}" for key, why in instance.idle()]
        return instance

    def _unknown(
        self, cls: type[Options], new_name: Mapping[str, str], values: Mapping[object, object], where: str
    ) -> tuple[set[object], set[str]]:
        """Report keys that are not options.  Returns those that are ignored with a warning, and the options meant."""
        newer = any(key in cls.NEWER and key not in new_name for key in values)
        ignored: set[object] = set()
        meant: set[str] = set()
        for key in values:
            if not isinstance(key, str):
                self.problems.append(f"{where}: option {key!r} is not a text: put it in quotes")
                continue
            if key in self.names:
                continue
            if key in cls.JVM_ONLY and not (newer and key in cls.NEWER):
                self.warnings.append(f"{where}: option '{key}' has no effect here: {cls.JVM_ONLY[key]}")
                continue
            if key in cls.REFUSED:
                said, ignores = f"is not supported: {cls.REFUSED[key]}", False
            elif key in cls.ONLY:
                said, ignores = _unlike(values[key], *cls.ONLY[key]), False
                if not said:
                    continue
            elif newer and key in cls.NEWER:
                said, ignores = self._of_newer_client(cls, key, new_name, values)
            elif key not in new_name:
                hint = _nearest(cls, key, new_name)
                meant.update(re.findall(r"'([^']*)'", hint))
                ignores = self.unknown == WARN
                said = f"is unknown{' and ignored' if ignores else ''}{hint}"
            else:
                continue
            (self.warnings if ignores else self.problems).append(f"{where}: option '{key}' {said}")
            if ignores:
                ignored.add(key)
        return ignored, meant

    def _of_newer_client(
        self, cls: type[Options], key: str, new_name: Mapping[str, str], values: Mapping[object, object]
    ) -> tuple[str, bool]:
        """Return the message for a key of the JVM's newer client, and whether the key is ignored.

        The JVM's older clients ignore it with a warning.  Here it is ignored only when the file also has the key that
        replaces it: otherwise the setting would be lost silently.
        """
        here = cls.NEWER[key]
        place = here.split()[0].rstrip(",;")
        counts = next((str(other) for other in values if new_name.get(str(other)) == place and other != key), None)
        if self.jvm and counts is not None and key not in new_name:
            return f"is one of the JVM's newer client and is ignored: '{counts}' counts", True
        ignores = self.unknown == WARN
        return f"is one of the JVM's newer client{' and is ignored' if ignores else ''}; here: {here}", ignores

    def _one(
        self,
        cls: type[Options],
        spec: Option,
        hint: Any,
        keys: Sequence[object],
        *,
        values: Mapping[object, object],
        where: str,
    ) -> list[Any]:
        """Return the option's value in a list of one; an empty list if it is not given, or not valid.

        keys: its names that the file gives.
        """
        valid: list[Any] = []
        if not keys and spec.required and not _instead(cls, spec, values):
            self.problems.append(f"{where}: option '{spec.key}' is missing: {spec.meaning}")
        for key in keys:
            try:
                value = self._value(cls, spec, hint, raw=values[key], path=f"{where}: {key}")
            except SecretUnreadable as unreadable:
                self.problems.append(f"{where}: option '{key}': {unreadable}")
                self.forbidden |= unreadable.forbidden
                continue
            except BadValue as wrong:
                here = dict(spec.newer).get(str(values[key]).strip().lower())
                helps = f"; the newer client's '{values[key]}' is {here} here" if here is not None else ""
                self.problems.append(f"{where}: option '{key}' is {spec.show(values[key])}, expected {wrong}{helps}")
                continue
            if valid and valid[0] != value:
                self.problems.append(
                    f"{where}: options '{keys[0]}' and '{key}' are two names of one thing and differ:"
                    f" {spec.show(values[keys[0]])}, {spec.show(values[key])}; keep '{spec.key}'"
                )
            valid = valid or [value]
        return valid

    def _value(self, cls: type[Options], spec: Option, hint: Any, *, raw: object, path: str) -> Any:
        hint, may_be_none = without_none(hint)
        if raw is None and may_be_none:
            return None
        section = _section_of(hint)
        if section is not None:
            return self._sections(section, hint, raw, path)
        if spec.kind == CLASS and spec.key in cls.NOT_LOADED:
            return str(raw).strip()
        if spec.kind == CLASS:
            return code(cls.JVM_CLASSES.get(spec.key, {}), raw)
        if self.jvm:
            raw = dict(spec.newer).get(str(raw).strip().lower(), raw)
        return value_of(spec, hint, raw, self.jvm)

    def _sections(self, section: type[Options], hint: Any, raw: object, path: str) -> Any:
        if hint is section:
            return self.section(section, raw, path)
        if typing.get_origin(hint) is dict:
            if not isinstance(raw, Mapping):
                raise BadValue("named sections: a mapping of mappings")
            return {str(name): self.section(section, values, f"{path}.{name}") for name, values in raw.items()}
        if not isinstance(raw, (list, tuple)):
            raise BadValue("a list of sections")
        return tuple(self.section(section, values, f"{path}[{i}]") for i, values in enumerate(raw))


def _nearest(cls: type[Options], key: str, new_name: Mapping[str, str]) -> str:
    """Return the end of the sentence about an unknown key: which option it may mean."""
    shown = {name: new_name.get(name, name) for name in (*new_name, *cls.JVM_ONLY, *cls.REFUSED, *cls.ONLY)}
    if cls.ANY_CASE:
        key, shown = key.lower(), {name.lower(): key for name, key in shown.items()}
    return did_you_mean(key, shown, shown, cls.MEANT)


def _unlike(value: object, only: str, why: str) -> str:
    """Return the end of the sentence about a key that takes one value alone; empty if it has that value."""
    if str(value).strip().lower() == only.lower():
        return ""
    return f"is {show_value(value)}, and only {only} is taken: {why}"


def _lacks_any(sections: Any) -> bool:
    """True if a section, or one of several, could not be made."""
    several = sections.values() if isinstance(sections, dict) else sections if isinstance(sections, tuple) else ()
    return sections is None or any(section is None for section in several)


def _placeholder(hint: Any) -> Any:
    """Return a value for a required option that is missing or wrong, so that the others can be checked."""
    hint, _ = without_none(hint)
    return None if _section_of(hint) is not None else {int: 0, float: 0.0, bool: False, str: ""}.get(hint, ())


def _names_any(sentence: str, keys: Iterable[str]) -> bool:
    """True if a sentence is about one of these options."""
    return any(re.search(rf"(?<![\w.-]){re.escape(key)}(?![\w-]|\.\w)", sentence) for key in keys)


def _instead(cls: type[Options], spec: Option, values: Mapping[object, object]) -> bool:
    """True if the file gives, under any of its names, an option that may replace a required one."""
    takes = (other for other in specs(cls).values() if other.key in spec.instead)
    return any(name in values for other in takes for name in (other.key, *other.old))


def _section_of(hint: Any) -> type[Options] | None:
    """Return the class of options in an annotation, or None."""
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, Options):
            return candidate
    return None


def reference(cls: type[Options], heading: str = "###", older: str | None = "0.7 name") -> str:
    """Return a markdown table of the options, followed by one for each section under its own heading.

    older: heading of the column with the older names; None leaves the column out.
    """
    hints = _hints(cast(Any, cls))
    names = ["option", *([older] if older is not None else []), "default", "unit", "meaning"]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    sections: list[str] = []
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name, spec in specs(cls).items():
        section = _section_of(without_none(hints[name])[0])
        if section is not None:
            below = reference(section, heading + "#", older)
            sections.append(f"{heading} `{spec.key}`\n\n{spec.meaning}\n\n{below}")
            continue
        meaning = spec.meaning + (f" ({', '.join(str(c) for c in spec.choices)})" if spec.choices else "")
        others = [" ".join(f"`{old}`" for old in spec.old)] if older is not None else []
        cells = [f"`{spec.key}`", *others, _default(spec, fields[name]), spec.unit, meaning]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    table = "\n".join(lines) + "\n" if len(lines) > 2 else ""
    return "\n".join(part for part in (table, *sections) if part)


def _default(spec: Option, field: dataclasses.Field[Any]) -> str:
    if spec.required:
        return "required"
    factory = field.default_factory
    value = field.default if factory is dataclasses.MISSING else factory()
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)
