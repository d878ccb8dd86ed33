"""Options.  A dataclass field holds key, default, unit and meaning; loading, checking and the reference page use it.

    @dataclass(frozen=True, slots=True)
    class FetchOptions(Options):
        JVM_ONLY = {"socket.send.buffer": "our links size their own buffers"}
        fetch_size: int = option("fetch.message.max.bytes", 1048576, "most of one partition in a fetch", "bytes",
                                 old="fetch.size")

    load(FetchOptions, yaml.safe_load(text), "mirror.yaml")                   # typed values; sections are mappings
    load(FetchOptions, read_properties(text), "old.properties", jvm=True)     # every value is text

A field's annotation says what it takes: bool, int, float, str, tuple[str, ...] (as text: `a, b`), X | None, another
class of options (a section), tuple[Section, ...] (a list of sections) or dict[str, Section] (named sections).
Every problem of a file is found before OptionError is raised; each is one sentence that names file, option and value.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from groundwork.optionvalues import MASK, BadValue, Kind, Option, code, show_value, value_of, without_none

C = TypeVar("C", bound="Options")
CLASS = "class"  # kind of an option that names code: MODULE:NAME, or a JVM class that JVM_CLASSES knows
ERROR, WARN = "error", "warn"  # what an unknown key is


class OptionError(ValueError):
    """What is wrong with a file of options; .problems has a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class Secret:
    """A text that nobody prints by accident: .text has it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Options:
    """The base of every class of options.

    JVM_ONLY      keys of the original that mean nothing here, and why: a warning and not an error
    JVM_CLASSES   of options of kind CLASS, by key: class names of the original and what we have for them
    NOT_LOADED    keys of options of kind CLASS that have no effect in this class: whatever they name is taken
    NEWER         keys of the JVM's newer client and what takes their place here, its key first; one that is also a
                  key of ours is refused beside others of them, where it would not mean what its writer thinks
    PREFIX        what `{prefix}` is in keys and meanings of options that come from a base several classes share
    """

    __slots__ = ("_given", "_warnings")
    JVM_ONLY: ClassVar[Mapping[str, str]] = {}
    JVM_CLASSES: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    NOT_LOADED: ClassVar[frozenset[str]] = frozenset()
    NEWER: ClassVar[Mapping[str, str]] = {}
    PREFIX: ClassVar[str] = ""

    def problems(self) -> Iterable[str]:
        """What is wrong between options that are each right: sentences without the file's name."""
        return ()


def option(
    key: str,
    default: Any,
    meaning: str,
    unit: str = "",
    old: str | Sequence[str] | None = None,
    kind: Kind | str | None = None,
    choices: Sequence[Any] | None = None,
    required: bool = False,
    least: float | None = None,
    secret: bool = False,
    instead: str = "",
    behind: str = "",
    newer: Mapping[str, str] | None = None,
) -> Any:
    """A field of an Options class.

    old       the key's names in 0.7
    kind      a function from the raw value (text, in a JVM file) to the field's value, or CLASS; it raises
              ValueError("what it expected")
    choices   the only values allowed; texts in any case
    required  the default is not used: load insists on the key, and the class on the argument
    least     the smallest number allowed
    secret    its value is masked wherever it is printed; kind makes a Secret of it
    instead   a key that takes its place: where that one is given, a required option has its default
    behind    the key behind which the reference lists it, when not in the order of the fields
    newer     values that the JVM's newer client has for it, and ours: the refusal names ours
    """
    olds = (old,) if isinstance(old, str) else tuple(old or ())
    spec = Option(
        key, meaning, unit, olds, kind, tuple(choices or ()), required, least, secret, instead, behind,
        tuple((newer or {}).items()),
    )  # fmt: skip
    if required and not instead:
        return dataclasses.field(kw_only=True, metadata={"option": spec})
    if isinstance(default, (dict, list)):
        return dataclasses.field(
            default_factory=lambda: type(default)(default), kw_only=True, metadata={"option": spec}
        )
    return dataclasses.field(default=default, kw_only=True, metadata={"option": spec})


def load(cls: type[C], values: Mapping[str, object], where: str, jvm: bool = False, unknown: str = ERROR) -> C:
    """An instance of `cls` from a file's values.  Raises OptionError with all problems of the file.

    where    the file's name, first in every sentence
    jvm      the values are a .properties file's: text
    unknown  what a key that is no option is: ERROR, or WARN, a warning, as for the JVM
    """
    reading = _Reading(jvm, unknown)
    instance = reading.section(cls, values, where)
    if reading.problems or instance is None:
        raise OptionError(reading.problems)
    object.__setattr__(instance, "_warnings", tuple(reading.warnings))
    return cast(C, instance)


def warnings_of(instance: Options) -> list[str]:
    """What load had to say that is no error, the sections' included; sentences."""
    return list(getattr(instance, "_warnings", ()))


def given(instance: Options) -> frozenset[str]:
    """Keys (today's names) that the file itself gave: the rest are defaults."""
    return getattr(instance, "_given", frozenset())


def specs(cls: type[Options]) -> dict[str, Option]:
    """The options of a class by field name, in the order in which they are listed."""
    fields = (f for f in dataclasses.fields(cls) if "option" in f.metadata)  # type: ignore[arg-type]
    found = {f.name: f.metadata["option"].under(cls.PREFIX) for f in fields}
    place = {spec.key: n for n, spec in enumerate(found.values())}
    return dict(sorted(found.items(), key=lambda one: (place[one[1].behind or one[1].key], bool(one[1].behind))))


class _Reading:
    """One load: problems and warnings gather here."""

    def __init__(self, jvm: bool, unknown: str) -> None:
        self.jvm = jvm
        self.unknown = unknown
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def section(self, cls: type[Options], values: object, where: str) -> Options | None:
        """None when something is wrong in it or below it."""
        if not isinstance(values, Mapping):
            self.problems.append(f"{where}: expected options as a mapping, got {show_value(values)}")
            return None
        before = len(self.problems)
        by_field = specs(cls)
        ignored = self._unknown(cls, by_field.values(), values, where)
        values = {key: value for key, value in values.items() if key not in ignored}
        hints = typing.get_type_hints(cls)
        found: dict[str, Any] = {}
        for name, spec in by_field.items():
            self._one(cls, name, spec, hints[name], values, where, found)
        if len(self.problems) > before:
            return None
        instance = cls(**found)
        object.__setattr__(instance, "_given", frozenset(by_field[name].key for name in found))
        self.problems.extend(f"{where}: {sentence}" for sentence in instance.problems())
        return instance

    def _unknown(
        self, cls: type[Options], known: Iterable[Option], values: Mapping[object, object], where: str
    ) -> set[object]:
        """Say what is to be said of keys that are no options; those that are ignored with a warning."""
        new_name = {name: spec.key for spec in known for name in (spec.key, *spec.old)}
        newer = any(key in cls.NEWER and key not in new_name for key in values)
        ignored: set[object] = set()
        for key in values:
            if not isinstance(key, str):
                self.problems.append(f"{where}: option {key!r} is no text; put it in quotes")
                continue
            if key in cls.JVM_ONLY and not (newer and key in cls.NEWER):
                self.warnings.append(f"{where}: option '{key}' has no effect here: {cls.JVM_ONLY[key]}")
                continue
            if newer and key in cls.NEWER:
                said, ignores = self._of_newer_client(cls, key, new_name, values)
            elif key not in new_name:
                near = difflib.get_close_matches(key, [*new_name, *cls.JVM_ONLY], 1)
                hint = f"; did you mean '{new_name.get(near[0], near[0])}'?" if near else ""
                ignores = self.unknown == WARN
                said = f"is unknown{' and ignored' if ignores else ''}{hint}"
            else:
                continue
            (self.warnings if ignores else self.problems).append(f"{where}: option '{key}' {said}")
            if ignores:
                ignored.add(key)
        return ignored

    def _of_newer_client(
        self, cls: type[Options], key: str, new_name: Mapping[str, str], values: Mapping[object, object]
    ) -> tuple[str, bool]:
        """What to say of a key of the JVM's newer client, and whether it is ignored.

        The older clients ignore it with a warning.  So do we where the file also has the key that takes its place;
        elsewhere what its writer wanted would be lost without a word.
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
        name: str,
        spec: Option,
        hint: Any,
        values: Mapping[object, object],
        where: str,
        found: dict[str, Any],
    ) -> None:
        keys = [key for key in (spec.key, *spec.old) if key in values]
        if not keys and spec.required and not _instead(cls, spec, values):
            self.problems.append(f"{where}: option '{spec.key}' is missing: {spec.meaning}")
        for key in keys:
            try:
                value = self._value(cls, spec, hint, values[key], f"{where}: {key}")
            except BadValue as wrong:
                here = dict(spec.newer).get(str(values[key]).strip().lower())
                helps = f"; the newer client's '{values[key]}' is {here} here" if here is not None else ""
                self.problems.append(f"{where}: option '{key}' is {spec.show(values[key])}, expected {wrong}{helps}")
                continue
            if name in found and found[name] != value:
                self.problems.append(
                    f"{where}: options '{keys[0]}' and '{key}' are two names of one thing and differ:"
                    f" {spec.show(values[keys[0]])}, {spec.show(values[key])}; keep '{spec.key}'"
                )
            found.setdefault(name, value)

    def _value(self, cls: type[Options], spec: Option, hint: Any, raw: object, path: str) -> Any:
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


def _instead(cls: type[Options], spec: Option, values: Mapping[object, object]) -> bool:
    """Whether the option is given, by any of its names, that takes the place of a required one."""
    takes = next((other for other in specs(cls).values() if other.key == spec.instead), None)
    return takes is not None and any(name in values for name in (takes.key, *takes.old))


def _section_of(hint: Any) -> type[Options] | None:
    """The class of options that an annotation holds, if it holds one."""
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, Options):
            return candidate
    return None


def reference(cls: type[Options], heading: str = "###", older: str | None = "0.7 name") -> str:
    """A markdown table of the options, and one for each section below it under a heading of its own.

    older: what the column of their other names is called; None leaves it out.
    """
    hints = typing.get_type_hints(cls)
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
    return str(value).lower() if isinstance(value, bool) else str(value)
