from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import yaml

from groundwork.java import read_properties
from groundwork.options import CLASS, OptionError, Options, given, load, option, reference, warnings_of


def codec(raw: object) -> int:
    numbers = {"none": 0, "gzip": 1, "0": 0, "1": 1}
    if str(raw) not in numbers:
        raise ValueError("none, gzip, 0 or 1")
    return numbers[str(raw)]


@dataclass(frozen=True, slots=True)
class Fetch(Options):
    JVM_ONLY: ClassVar[Mapping[str, str]] = {"num.consumer.fetchers": "there is one fetcher a broker"}
    JVM_CLASSES: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "partitioner.class": {"kafka.producer.DefaultPartitioner": "producer.partitioners:by_key"},
        "serializer.class": {"kafka.serializer.StringEncoder": "producer.encoders:as_text"},
    }

    group_id: str = option("group.id", None, "the group", old="groupid", required=True)
    fetch_size: int = option(
        "fetch.message.max.bytes", 1048576, "most of one partition in a fetch", "bytes", old="fetch.size", least=1
    )
    timeout_ms: int = option("socket.timeout.ms", 30000, "longest wait for a reply", "ms")
    commit: bool = option("auto.commit.enable", True, "commit on a timer", old=("autocommit.enable",))
    ratio: float = option("lag.ratio", 0.5, "a share", "of 1")
    reset: str = option("auto.offset.reset", "smallest", "where to start", choices=("smallest", "largest"))
    acks: int = option("request.required.acks", -1, "acknowledgements", choices=(-1, 1))
    topics: tuple[str, ...] = option("topics", (), "names")
    prefix: str | None = option("prefix", None, "in front of names | or none")
    codec: int = option("compression.codec", 0, "codec", kind=codec)
    partitioner: str = option("partitioner.class", "a:b", "chooses partitions", kind=CLASS)

    def problems(self) -> Iterable[str]:
        if self.timeout_ms < 100:
            yield "option 'socket.timeout.ms' is less than fetch.wait.max.ms 100"


@dataclass(frozen=True, slots=True)
class Mirror(Options):
    source: Fetch = option("source", None, "what is read", required=True)  # noqa: RUF009
    extra: tuple[Fetch, ...] = option("extra", (), "further sources")
    named: dict[str, Fetch] = option("named", {}, "sources by name")  # noqa: RUF009
    target: Fetch | None = option("target", None, "what is written")  # noqa: RUF009


def problems(cls: type[Options], values: Mapping[str, Any], jvm: bool = False) -> list[str]:
    with pytest.raises(OptionError) as raised:
        load(cls, values, "f.yaml", jvm)
    return raised.value.problems


def test_values_of_a_yaml_file_arrive_and_the_rest_is_default() -> None:
    text = "{group.id: g, fetch.message.max.bytes: 5, lag.ratio: 2, topics: [a, b], prefix: null}"
    loaded = load(Fetch, {**yaml.safe_load(text), "auto.commit.enable": False}, "f.yaml")
    assert loaded == Fetch(group_id="g", fetch_size=5, ratio=2.0, topics=("a", "b"), prefix=None, commit=False)
    assert isinstance(loaded.ratio, float)
    assert given(loaded) == {
        "group.id",
        "fetch.message.max.bytes",
        "lag.ratio",
        "topics",
        "prefix",
        "auto.commit.enable",
    }
    assert warnings_of(loaded) == []
    assert warnings_of(Fetch(group_id="g")) == []


def test_values_of_a_jvm_file_are_read_from_their_text() -> None:
    text = "groupid=g\nfetch.size = 700 \nautocommit.enable=False\nlag.ratio=1e-1\ntopics= a, b,,c\n"
    text += "auto.offset.reset=LARGEST\n"
    loaded = load(Fetch, read_properties(text), "old.properties", jvm=True)
    assert loaded == Fetch(
        group_id="g", fetch_size=700, commit=False, ratio=0.1, topics=("a", "b", "c"), reset="largest"
    )


def test_unknown_option_names_the_nearest() -> None:
    assert problems(Fetch, {"group.id": "g", "fetch.message.max.byte": 5}) == [
        "f.yaml: option 'fetch.message.max.byte' is unknown; did you mean 'fetch.message.max.bytes'?"
    ]


def test_option_near_an_old_name_is_pointed_to_the_new_one() -> None:
    assert problems(Fetch, {"group_id": "g", "group.id": "g"})[0].endswith("did you mean 'group.id'?")
    assert problems(Fetch, {"group.id": "g", "fetch.sise": 5}) == [
        "f.yaml: option 'fetch.sise' is unknown; did you mean 'fetch.message.max.bytes'?"
    ]
    assert problems(Fetch, {"group.id": "g", "zzzzzz": 5}) == ["f.yaml: option 'zzzzzz' is unknown"]


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("socket.timeout.ms", "abc", "option 'socket.timeout.ms' is 'abc', expected a whole number of ms"),
        ("socket.timeout.ms", True, "option 'socket.timeout.ms' is true, expected a whole number of ms"),
        ("socket.timeout.ms", 1.5, "option 'socket.timeout.ms' is 1.5, expected a whole number of ms"),
        ("socket.timeout.ms", None, "option 'socket.timeout.ms' is empty, expected a whole number of ms"),
        ("socket.timeout.ms", {"a": 1}, "option 'socket.timeout.ms' is a mapping, expected a whole number of ms"),
        ("fetch.size", 0, "option 'fetch.size' is 0, expected at least 1 bytes"),
        ("auto.commit.enable", "yes", "option 'auto.commit.enable' is 'yes', expected true or false"),
        (
            "auto.commit.enable",
            "true",
            "option 'auto.commit.enable' is 'true', expected true or false, without quotes",
        ),
        (
            "socket.timeout.ms",
            "60",
            "option 'socket.timeout.ms' is '60', expected a whole number of ms, without quotes",
        ),
        ("auto.commit.enable", 1, "option 'auto.commit.enable' is 1, expected true or false"),
        ("lag.ratio", "much", "option 'lag.ratio' is 'much', expected a number of of 1"),
        ("lag.ratio", float("nan"), "option 'lag.ratio' is nan, expected a number of of 1"),
        (
            "group.id",
            5,
            "option 'group.id' is 5, expected text, and without quotes this is a number: put it in quotes",
        ),
        ("auto.offset.reset", "latest", "option 'auto.offset.reset' is 'latest', expected one of smallest, largest"),
        ("request.required.acks", 0, "option 'request.required.acks' is 0, expected one of -1, 1"),
        ("topics", [1], "option 'topics' is a list, expected a list of texts"),
        ("topics", 3, "option 'topics' is 3, expected a list of texts"),
        ("compression.codec", "zip", "option 'compression.codec' is 'zip', expected none, gzip, 0 or 1"),
    ],
)
def test_wrong_value_names_option_value_type_and_unit(key: str, value: object, sentence: str) -> None:
    assert problems(Fetch, {"group.id": "g", key: value}) == [f"f.yaml: {sentence}"]


@pytest.mark.parametrize("text", ["1_000", "٣", "0x10", "", "1.0", "1 000", "--1"])
def test_text_that_java_reads_as_no_number_is_refused(text: str) -> None:
    assert problems(Fetch, {"group.id": "g", "socket.timeout.ms": text}, jvm=True) == [
        f"f.yaml: option 'socket.timeout.ms' is {text!r}, expected a whole number of ms"
    ]


def test_all_problems_of_a_file_are_told_together() -> None:
    told = problems(Fetch, {"socket.timeout.ms": "x", "nonsense": 1, 5: 1, "lag.ratio": "y"})  # type: ignore[dict-item]
    assert len(told) == 5
    assert "f.yaml: option 'group.id' is missing: the group" in told
    assert "f.yaml: option 5 is not a text: put it in quotes" in told
    with pytest.raises(OptionError) as raised:
        load(Fetch, {"nonsense": 1}, "f.yaml")
    assert str(raised.value).splitlines() == raised.value.problems


def test_problem_between_options_is_told_with_the_file() -> None:
    assert problems(Fetch, {"group.id": "g", "socket.timeout.ms": 50}) == [
        "f.yaml: option 'socket.timeout.ms' is less than fetch.wait.max.ms 100"
    ]


def test_old_and_new_name_may_agree_and_must_not_differ() -> None:
    assert load(Fetch, {"group.id": "g", "groupid": "g"}, "f.yaml").group_id == "g"
    assert problems(Fetch, {"group.id": "g", "groupid": "h"}) == [
        "f.yaml: options 'group.id' and 'groupid' are two names of one thing and differ: 'g', 'h'; keep 'group.id'"
    ]


@pytest.mark.parametrize("jvm", [True, False])
def test_jvm_option_without_meaning_is_a_named_warning(jvm: bool) -> None:
    loaded = load(Fetch, {"group.id": "g", "num.consumer.fetchers": "2"}, "c.properties", jvm)
    assert warnings_of(loaded) == [
        "c.properties: option 'num.consumer.fetchers' has no effect here: there is one fetcher a broker"
    ]


def test_jvm_class_becomes_ours_or_is_refused_by_name() -> None:
    values = {"group.id": "g", "partitioner.class": "kafka.producer.DefaultPartitioner"}
    assert load(Fetch, values, "f", jvm=True).partitioner == "producer.partitioners:by_key"
    assert load(Fetch, {**values, "partitioner.class": "my.code:choose"}, "f").partitioner == "my.code:choose"
    assert problems(Fetch, {**values, "partitioner.class": "com.acme.Mine"}) == [
        "f.yaml: option 'partitioner.class' is 'com.acme.Mine', expected MODULE:NAME of a Python callable,"
        " the name of an entry point, or one of the JVM classes kafka.producer.DefaultPartitioner"
    ]


@dataclass(frozen=True, slots=True)
class NoFetch(Fetch):
    NOT_LOADED: ClassVar[frozenset[str]] = frozenset({"partitioner.class"})


def test_a_class_without_effect_may_be_any() -> None:
    values = {"group.id": "g", "partitioner.class": "com.acme.Mine"}
    assert load(NoFetch, values, "f", jvm=True).partitioner == "com.acme.Mine"


def test_unknown_keys_are_warnings_where_that_is_asked_for() -> None:
    loaded = load(Fetch, {"group.id": "g", "fetch.sise": "1", "zzzzzz": 5}, "f.yaml", unknown="warn")
    assert loaded.group_id == "g"
    assert warnings_of(loaded) == [
        "f.yaml: option 'fetch.sise' is unknown and ignored; did you mean 'fetch.message.max.bytes'?",
        "f.yaml: option 'zzzzzz' is unknown and ignored",
    ]


def test_sections_are_loaded_and_name_their_place() -> None:
    section = {"group.id": "g"}
    loaded = load(Mirror, {"source": section, "extra": [section], "named": {"dc1": section}}, "m.yaml")
    assert loaded.source.group_id == loaded.extra[0].group_id == loaded.named["dc1"].group_id == "g"
    assert loaded.target is None
    assert problems(Mirror, {"source": {"groupp.id": "g"}, "extra": [section, {}], "named": {"dc1": 5}}) == [
        "f.yaml: source: option 'groupp.id' is unknown; did you mean 'group.id'?",
        "f.yaml: source: option 'group.id' is missing: the group",
        "f.yaml: extra[1]: option 'group.id' is missing: the group",
        "f.yaml: named.dc1: expected options as a mapping, got 5",
    ]


def test_file_that_is_no_mapping_is_refused() -> None:
    assert problems(Mirror, ["a"]) == ["f.yaml: expected options as a mapping, got a list"]  # type: ignore[arg-type]
    assert problems(Mirror, {"source": {"group.id": "g"}, "extra": {}, "named": []}) == [
        "f.yaml: option 'extra' is a mapping, expected a list of sections",
        "f.yaml: option 'named' is a list, expected named sections: a mapping of mappings",
    ]


def test_warnings_of_sections_reach_the_top() -> None:
    loaded = load(Mirror, {"source": {"group.id": "g", "num.consumer.fetchers": 1}}, "m.yaml")
    assert len(warnings_of(loaded)) == 1
    assert warnings_of(loaded)[0].startswith("m.yaml: source: option 'num.consumer.fetchers'")


def test_required_option_is_a_required_argument() -> None:
    with pytest.raises(TypeError, match="group_id"):
        Fetch()


def test_reference_has_a_row_an_option_and_a_table_a_section() -> None:
    page = reference(Mirror)
    assert "### `source`" in page
    assert "| `group.id` | `groupid` | required |  | the group |" in page
    assert "| `fetch.message.max.bytes` | `fetch.size` | 1048576 | bytes | most of one partition in a fetch |" in page
    assert "| `auto.offset.reset` |  | smallest |  | where to start (smallest, largest) |" in page
    assert "| `auto.commit.enable` | `autocommit.enable` | true |" in page
    assert "in front of names \\| or none" in page


@dataclass(frozen=True, slots=True)
class Reached(Options):
    """A base that several classes share."""

    secret: str = option("{prefix}.auth", "", "who we are at {prefix}.connect", behind="{prefix}.connect")


@dataclass(frozen=True, slots=True)
class There(Reached):
    PREFIX: ClassVar[str] = "there"
    first: str = option("first", "", "told first")
    connect: str = option("there.connect", "", "where it is")
    last: str = option("last", "", "told last")


@dataclass(frozen=True, slots=True)
class Elsewhere(There):
    PREFIX: ClassVar[str] = "elsewhere"
    other: str = option("elsewhere.connect", "", "where it is instead")


@pytest.mark.parametrize(
    ("cls", "keys"),
    [
        (There, ["first", "there.connect", "there.auth", "last"]),
        (Elsewhere, ["first", "there.connect", "last", "elsewhere.connect", "elsewhere.auth"]),
    ],
)
def test_options_of_a_shared_base_have_each_classes_prefix_and_place(cls: type[Reached], keys: list[str]) -> None:
    assert re.findall(r"(?m)^\| `([^`]+)`", reference(cls)) == keys
    assert f"who we are at {cls.PREFIX}.connect" in reference(cls)
    assert load(cls, {f"{cls.PREFIX}.auth": "me"}, "f.yaml").secret == "me"
    assert problems(cls, {"{prefix}.auth": "me", "nowhere.auth": "me"})[1].endswith(f"mean '{cls.PREFIX}.auth'?")


@dataclass(frozen=True, slots=True)
class Sender(Options):
    NEWER: ClassVar[Mapping[str, str]] = {"bootstrap.servers": "broker.list", "batch.size": "batch.bytes"}
    batch: int = option("batch.messages", 200, "messages", old="batch.size")
    brokers: str = option("broker.list", "", "brokers", old="metadata.broker.list")
    group: str = option("group", "", "a name")


def test_key_of_the_newer_client_names_what_takes_its_place() -> None:
    with pytest.raises(OptionError) as wrong:
        load(Sender, {"bootstrap.servers": "k:9092", "batch.size": "16384"}, "p.properties", jvm=True)
    assert wrong.value.problems == [
        "p.properties: option 'bootstrap.servers' is one of the JVM's newer client; here: broker.list",
        "p.properties: option 'batch.size' is one of the JVM's newer client; here: batch.bytes",
    ]
    assert load(Sender, {"batch.size": "16"}, "p.properties", jvm=True).batch == 16, "an old file means what it says"


def test_key_of_the_newer_client_is_ignored_beside_the_one_that_takes_its_place() -> None:
    values = {"bootstrap.servers": "k:9092", "metadata.broker.list": "o:9092"}
    loaded = load(Sender, values, "p.properties", jvm=True)
    assert loaded.brokers == "o:9092"
    assert warnings_of(loaded) == [
        "p.properties: option 'bootstrap.servers' is one of the JVM's newer client and is ignored: "
        "'metadata.broker.list' counts"
    ]
    with pytest.raises(OptionError, match=r"here: broker\.list"):  # a file of our own has no such key by habit
        load(Sender, values, "m.yaml")


def test_keys_of_the_newer_client_are_warnings_too_where_unknown_ones_are() -> None:
    loaded = load(Sender, {"bootstrap.servers": "k:9092", "batch.size": "16384"}, "p", jvm=True, unknown="warn")
    assert (loaded.brokers, loaded.batch) == ("", 200)
    assert warnings_of(loaded) == [
        "p: option 'bootstrap.servers' is one of the JVM's newer client and is ignored; here: broker.list",
        "p: option 'batch.size' is one of the JVM's newer client and is ignored; here: batch.bytes",
    ]


@dataclass(frozen=True, slots=True)
class Reset(Options):
    reset: str = option("reset", "smallest", "where", choices=("smallest", "largest"), newer={"latest": "largest"})
    acks: int = option("acks", -1, "who has it", choices=(-1, 0, 1), newer={"all": "-1"})


def test_value_of_the_newer_client_is_taken_in_a_jvm_file_and_names_ours_elsewhere() -> None:
    values = {"reset": "Latest", "acks": "all"}
    assert load(Reset, values, "f", jvm=True) == Reset(reset="largest", acks=-1)
    with pytest.raises(OptionError) as wrong:
        load(Reset, values, "f")
    assert wrong.value.problems == [
        "f: option 'reset' is 'Latest', expected one of smallest, largest; the newer client's 'Latest' is largest here",
        "f: option 'acks' is 'all', expected one of -1, 0, 1; the newer client's 'all' is -1 here",
    ]


def test_another_name_that_a_file_has_for_an_option_is_quoted_where_its_value_is_wrong() -> None:
    names = {"start": "reset"}
    assert load(Reset, {"start": "latest"}, "f", jvm=True, names=names).reset == "largest"
    with pytest.raises(OptionError, match=r"^f: option 'start' is 'nowhere', expected one of smallest, largest$"):
        load(Reset, {"start": "nowhere"}, "f", jvm=True, names=names)


@dataclass(frozen=True, slots=True)
class Bounds(Options):
    JVM_ONLY: ClassVar = {"old.key": "it is old"}
    MEANT: ClassVar = {"name": "title"}

    title: str = option("title", "", "name", required=True)
    low: int = option("low", 0, "lowest", old="lo")
    high: int = option("high", 9, "highest")
    step: int = option("step", 1, "step")

    def problems(self) -> list[str]:
        found = [f"'low' ({self.low}) must be below 'high' ({self.high})"] if self.low >= self.high else []
        return [*found, *([f"'step' is {self.step}: a step of 0 leads nowhere"] if not self.step else [])]


@dataclass(frozen=True, slots=True)
class Several(Options):
    bounds: tuple[Bounds, ...] = option("bounds", (), "some", required=True)
    one: Bounds = option("one", None, "one", required=True)  # noqa: RUF009


def test_conflicts_are_told_beside_values_that_are_wrong_by_themselves_and_warnings_too() -> None:
    values = {"lo": 7, "high": 3, "step": "many", "tytle": "x", "old.key": 1}
    with pytest.raises(OptionError) as wrong:
        load(Bounds, values, "f")
    assert wrong.value.problems == [
        "f: option 'tytle' is unknown; did you mean 'title'?",
        "f: option 'title' is missing: name",
        "f: option 'step' is 'many', expected a whole number",
        "f: 'low' (7) must be below 'high' (3)",
    ]
    assert wrong.value.warnings == ["f: option 'old.key' has no effect here: it is old"]
    assert wrong.value.partial is not None


def test_of_an_option_that_is_wrong_by_itself_no_conflict_is_told() -> None:
    with pytest.raises(OptionError) as wrong:
        load(Bounds, {"title": "x", "low": "many", "high": 0, "step": 0}, "f")
    assert wrong.value.problems == [
        "f: option 'low' is 'many', expected a whole number",
        "f: 'step' is 0: a step of 0 leads nowhere",
    ]


def test_every_section_tells_all_of_its_problems() -> None:
    values = {"bounds": [{"title": "a", "low": 9}, {"name": "b", "low": 9}], "one": {"low": "x", "step": 0}}
    with pytest.raises(OptionError) as wrong:
        load(Several, values, "f")
    assert wrong.value.problems == [
        "f: bounds[0]: 'low' (9) must be below 'high' (9)",
        "f: bounds[1]: option 'name' is unknown; did you mean 'title'?",
        "f: bounds[1]: option 'title' is missing: name",
        "f: bounds[1]: 'low' (9) must be below 'high' (9)",
        "f: one: option 'title' is missing: name",
        "f: one: option 'low' is 'x', expected a whole number",
        "f: one: 'step' is 0: a step of 0 leads nowhere",
    ]
    with pytest.raises(OptionError) as wrong:
        load(Several, {"bounds": [3], "one": None}, "f")
    assert wrong.value.partial is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "5, expected text, and without quotes this is a number: put it in quotes"),
        (True, "true, expected text, and without quotes this is true or false: put it in quotes"),
        (0.1, "0.1, expected text, and without quotes this is a number (0.10 is 0.1): put it in quotes"),
        (
            datetime.date(2014, 3, 7),
            "2014-03-07, expected text, and without quotes this is a date: put it in quotes",
        ),
    ],
)
def test_text_that_yaml_reads_as_something_else_wants_quotes(value: object, expected: str) -> None:
    with pytest.raises(OptionError) as wrong:
        load(Sender, {"group": value}, "m.yaml")
    assert wrong.value.problems == [f"m.yaml: option 'group' is {expected}"]


@dataclass(frozen=True, slots=True)
class Handed(Options):
    ANY_CASE = True
    JVM_ONLY: ClassVar = {"pollTimeout": "a fetch is bounded by timeout.ms"}
    REFUSED: ClassVar = {"key.decoder": "decode in the query"}
    ONLY: ClassVar = {"idempotence": ("false", "brokers know it from 0.11 on")}

    offsets: str = option("startingOffsets", "latest", "where to begin", old="starting.offsets")


def test_keys_in_any_case_have_a_class_that_says_so():
    assert load(Handed, {"STARTINGOFFSETS": "earliest"}, "q").offsets == "earliest"
    assert load(Handed, {"Starting.Offsets": "earliest"}, "q").offsets == "earliest"
    assert warnings_of(load(Handed, {"polltimeout": "5"}, "q")) == [
        "q: option 'pollTimeout' has no effect here: a fetch is bounded by timeout.ms"
    ]
    with pytest.raises(OptionError, match=r"^q: option 'STARTINGOFFSET' is unknown; did you mean 'startingOffsets'\?$"):
        load(Handed, {"STARTINGOFFSET": "earliest"}, "q")


def test_keys_of_other_clients_are_refused_with_what_to_do():
    with pytest.raises(OptionError, match=r"^q: option 'key.decoder' is not supported: decode in the query$"):
        load(Handed, {"KEY.decoder": "x"}, "q")


def test_a_key_that_takes_one_value_alone_is_refused_with_another():
    assert load(Handed, {"idempotence": "False"}, "q").offsets == "latest"
    with pytest.raises(
        OptionError, match=r"^q: option 'idempotence' is 'true', and only false is taken: brokers know it from 0.11 on$"
    ):
        load(Handed, {"idempotence": "true"}, "q")


@dataclass(frozen=True, slots=True)
class Reading(Options):
    mode: str = option("mode", "group", "what is read", choices=("group", "fixed"))
    retries: int = option("retries", 4, "failed rebalances in a row", least=1)

    def idle(self) -> Iterable[tuple[str, str]]:
        if self.mode == "fixed" and "retries" in given(self):
            yield "retries", "with 'mode' fixed: there is no group"


def test_a_given_option_without_effect_is_a_warning():
    assert warnings_of(load(Reading, {"mode": "fixed"}, "f")) == []
    assert warnings_of(load(Reading, {"mode": "fixed", "retries": 2}, "f")) == [
        "f: option 'retries' has no effect with 'mode' fixed: there is no group"
    ]
    with pytest.raises(OptionError) as refused:
        load(Reading, {"mode": "fixed", "retries": 0}, "f")
    assert refused.value.warnings == []


@dataclass(frozen=True, slots=True)
class Reach(Options):
    protocol: str = option("{before}security.protocol", "PLAINTEXT", "security of brokers", behind="{before}client.id")
    auth: str | None = option("{prefix}.auth", None, "who we are at {prefix}.connect")


@dataclass(frozen=True, slots=True)
class QueryReach(Reach):
    PREFIX: ClassVar[str] = "zookeeper"
    BEFORE: ClassVar[str] = "kafka."


def test_inherited_keys_begin_as_the_class_says():
    found = load(QueryReach, {"kafka.security.protocol": "SSL", "zookeeper.auth": "me"}, "q")
    assert (found.protocol, found.auth) == ("SSL", "me")
    with pytest.raises(OptionError, match=r"did you mean 'kafka\.security\.protocol'"):
        load(QueryReach, {"security.protocol": "SSL"}, "q")
