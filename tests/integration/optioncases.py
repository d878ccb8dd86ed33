"""What options of a batch mean: cases after Spark's own kafka format, which each run through it and through ours.

The topics of a run (PLACE stands for its tag):

    a-PLACE    partition 0: 10 messages, partition 1: 4
    b-PLACE    partition 0: 3 messages

A case says what kafka does (rows, or that it refuses), and how kafka08 differs where it does, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FILLED = {("a", 0): 10, ("a", 1): 4, ("b", 0): 3}
FUTURE = "32503680000000"  # the year 3000

Ranges = Mapping[str, tuple[int, int]]  # "a/0" -> first offset read, and the one behind the last


@dataclass(frozen=True, slots=True)
class Case:
    """rows: what is read; None: it is refused, by ours with `says` in the sentence."""

    name: str
    options: Mapping[str, str]
    rows: Ranges | None = None
    says: str = ""
    schema: str | None = None
    kafka: Ranges | None = None  # what kafka reads where `differs`; None: it refuses
    differs: str = ""  # why ours does not do the same
    session: bool = False  # ours runs in a session, too, and not only as Spark calls it


A = {"a/0": (0, 10), "a/1": (0, 4)}
B = {"b/0": (0, 3)}
SUBSCRIBED = {"subscribe": "a-PLACE"}


def starting(text: str, **others: str) -> dict[str, str]:
    return {**SUBSCRIBED, "startingOffsets": text, **others}


def offsets(first: int, second: int) -> str:
    return f'{{"a-PLACE":{{"0":{first},"1":{second}}}}}'


def refusing(name: str, says: str, options: Mapping[str, str]) -> Case:
    return Case(name, options, None, says)


CHOICE = [
    Case("everything, where nothing is said", SUBSCRIBED, A, session=True),
    Case("topics in a list, with blanks", {"subscribe": " a-PLACE ,, b-PLACE"}, {**A, **B}),
    Case("names of options in any case", {"SUBSCRIBE": "b-PLACE", "STARTINGoffsets": "Earliest"}, B, session=True),
    Case("a pattern is found anywhere in the name", {"subscribePattern": "-PLACE"}, {**A, **B}),
    Case("a pattern that matches nothing reads nothing", {"subscribePattern": "nothing-PLACE.*"}, {}, session=True),
    Case("assigned partitions", {"assign": '{"a-PLACE":[1],"b-PLACE":[0]}'}, {"a/1": (0, 4), **B}),
    Case(
        "an assigned partition that is not there",
        {"assign": '{"a-PLACE":[1,7]}'},
        says="UNKNOWN_PARTITION topic=a-PLACE partition=7",
        kafka={"a/1": (0, 4)},
        differs="a partition that was named and is silently left out is data that nobody misses",
    ),
    refusing("nothing chosen", "none is given", {}),
    refusing("two ways to choose", "not assign and subscribe together", {**SUBSCRIBED, "assign": '{"a-PLACE":[0]}'}),
    refusing("no topics", "option 'subscribe' has no topic: ','", {"subscribe": " , "}),
    refusing("no pattern", "option 'subscribePattern' is empty", {"subscribePattern": " "}),
    refusing("a broken pattern", "option 'subscribePattern'", {"subscribePattern": "a-("}),
    refusing("assign is no JSON", "option 'assign' expected something like", {"assign": "a-PLACE"}),
    refusing("assign without lists", "option 'assign' expected something like", {"assign": '{"a-PLACE":0}'}),
    refusing("a topic that is not there", "UNKNOWN_PARTITION topic=c-PLACE", {"subscribe": "a-PLACE,c-PLACE"}),
]
NUMBERS = [
    Case("from and to numbers", starting(offsets(3, 1), endingOffsets=offsets(8, 4)), {"a/0": (3, 8), "a/1": (1, 4)}),
    Case("-2 is the earliest", starting(offsets(-2, 1)), {"a/0": (0, 10), "a/1": (1, 4)}),
    Case("-1 is the latest", starting(offsets(9, 1), endingOffsets=offsets(-1, 2)), {"a/0": (9, 10), "a/1": (1, 2)}),
    Case("a range may be empty", starting(offsets(10, 2), endingOffsets=offsets(10, 3)), {"a/1": (2, 3)}),
    Case("to the latest, by name", starting("earliest", endingOffsets="latest"), A),
    refusing("a batch from the latest", "does not begin at the latest", starting("latest")),
    refusing("a partition from the latest", "does not begin at the latest offset of a-PLACE/1",
             starting(offsets(0, -1))),
    refusing("a batch to the earliest", "does not end at the earliest", {**SUBSCRIBED, "endingOffsets": "earliest"}),
    refusing("a partition to the earliest", "does not end at the earliest offset of a-PLACE/0",
             {**SUBSCRIBED, "endingOffsets": offsets(-2, 4)}),
    refusing("a partition left out", "a-PLACE/1 is missing", starting('{"a-PLACE":{"0":3}}')),
    refusing("a partition left out at the end", "a-PLACE/0 is missing",
             {**SUBSCRIBED, "endingOffsets": '{"a-PLACE":{"1":3}}'}),
    refusing("a partition too many", "names what is not read: b-PLACE/0",
             starting('{"a-PLACE":{"0":0,"1":0},"b-PLACE":{"0":0}}')),
    refusing("start and end name different partitions", "a-PLACE/1 is in one only",
             starting(offsets(0, 0), endingOffsets='{"a-PLACE":{"0":5}}')),
    refusing("a start behind its end", "a-PLACE/0 begins at 5, behind its end 4",
             starting(offsets(5, 0), endingOffsets=offsets(4, 4))),
    refusing("offsets that are no JSON", "option 'startingOffsets' expected something like", starting("first")),
    refusing("offsets that are no numbers", "option 'startingOffsets' expected something like",
             starting('{"a-PLACE":{"0":"x","1":2}}')),
    Case(
        "a start behind the end of the log",
        starting(offsets(11, 0)),
        says="KAFKA08_OFFSET_OUT_OF_RANGE topic=a-PLACE partition=0 requested=11 earliest=0 latest=10",
        kafka={"a/1": (0, 4)},
        differs="a position beyond the end is that of another log: the topic was made anew",
    ),
]  # fmt: skip
TIMES = [
    Case("from a time before everything", {**SUBSCRIBED, "startingTimestamp": "1"}, A),
    Case("times by partition", {**SUBSCRIBED, "startingOffsetsByTimestamp": offsets(1, 2)}, A),
    Case("to a time after everything", {**SUBSCRIBED, "endingTimestamp": FUTURE}, A),
    Case("to a time before everything", {**SUBSCRIBED, "endingTimestamp": "1"}, {}),
    Case("to times by partition", {**SUBSCRIBED, "endingOffsetsByTimestamp": offsets(1, int(FUTURE))}, {"a/1": (0, 4)}),
    Case("a time goes before times and offsets",
         starting("latest", startingTimestamp="1", startingOffsetsByTimestamp=offsets(int(FUTURE), int(FUTURE))), A),
    Case("times go before offsets", starting("latest", startingOffsetsByTimestamp=offsets(1, 1)), A),
    Case("an end by time goes before the others",
         {**SUBSCRIBED, "endingTimestamp": FUTURE, "endingOffsetsByTimestamp": offsets(1, 1),
          "endingOffsets": "earliest"}, A),
    Case("what goes behind is not even read", starting("neither", startingTimestamp="1",
         startingOffsetsByTimestamp="nor"), A),
    refusing("from a time after everything", "KAFKA08_NO_OFFSET_FOR_TIME topic=a-PLACE",
             {**SUBSCRIBED, "startingTimestamp": FUTURE}),
    Case("from a time after everything, to begin at the latest",
         {**SUBSCRIBED, "startingTimestamp": FUTURE, "startingOffsetsByTimestampStrategy": "latest"}, {}),
    Case("one partition's time is after everything",
         {**SUBSCRIBED, "startingOffsetsByTimestamp": offsets(1, int(FUTURE)),
          "startingOffsetsByTimestampStrategy": "LATEST"}, {"a/0": (0, 10)}),
    refusing("a time for some partitions only", "a-PLACE/1 is missing",
             {**SUBSCRIBED, "startingOffsetsByTimestamp": '{"a-PLACE":{"0":1}}'}),
    refusing("a time that is no number", "option 'startingTimestamp'", {**SUBSCRIBED, "startingTimestamp": "now"}),
    refusing("times that are no JSON", "option 'endingOffsetsByTimestamp'",
             {**SUBSCRIBED, "endingOffsetsByTimestamp": "x"}),
    refusing("a strategy that does not exist", "startingOffsetsByTimestampStrategy",
             {**SUBSCRIBED, "startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "newest"}),
]  # fmt: skip
OTHERS = [
    *(refusing(f"{name} is refused", f"option '{name}' is not supported", {**SUBSCRIBED, name: "x"})
      for name in ("kafka.auto.offset.reset", "kafka.key.deserializer", "kafka.value.deserializer",
                   "kafka.enable.auto.commit", "kafka.interceptor.classes")),
    refusing("no partitions at all", "minPartitions", {**SUBSCRIBED, "minPartitions": "0"}),
    refusing("partitions without records", "maxRecordsPerPartition", {**SUBSCRIBED, "maxRecordsPerPartition": "0"}),
    refusing("a number that is none", "minPartitions", {**SUBSCRIBED, "minPartitions": "many"}),
    refusing("a flag that is none", "failOnDataLoss", {**SUBSCRIBED, "failOnDataLoss": "perhaps"}),
    refusing("more at least than at most", "minOffsetsPerTrigger",
             {**SUBSCRIBED, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}),
    refusing("brokers without a port", "kafka.bootstrap.servers", {**SUBSCRIBED, "kafka.bootstrap.servers": "b1"}),
    Case("more partitions change no rows", {**SUBSCRIBED, "minPartitions": "7", "maxRecordsPerPartition": "3"}, A),
    Case("a limit of streams means nothing in a batch", {**SUBSCRIBED, "maxOffsetsPerTrigger": "3"}, A),
    Case("headers", {**SUBSCRIBED, "includeHeaders": "true"}, A),
    Case("options of the consumer pass through", {**SUBSCRIBED, "kafka.fetch.min.bytes": "1",
         "kafka.session.timeout.ms": "10000", "kafka.client.id": "tests", "groupIdPrefix": "tests"}, A),
    Case("an option that does not exist", {**SUBSCRIBED, "startingOffset": "earliest"},
         says="did you mean 'startingOffsets'", kafka=A,
         differs="a misspelt option that is passed over reads something else than was asked for"),
    Case("a user's schema", SUBSCRIBED, A, schema="partition int, topic string, offset bigint", session=True,
         differs="fewer columns cost less: Spark prunes nothing of a Python source"),
]  # fmt: skip
CASES: list[Case] = [*CHOICE, *NUMBERS, *TIMES, *OTHERS]


def placed(text: str, place: str) -> str:
    return text.replace("PLACE", place)


def options_of(case: Case, brokers: str, place: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": brokers} | {name: placed(text, place) for name, text in case.options.items()}


def run(spark: Any, source: str, case: Case, brokers: str, place: str) -> Ranges | str:
    """What the case reads through a format; what Spark says, where it refuses."""
    reader = spark.read.format(source).options(**options_of(case, brokers, place))
    if case.schema is not None:
        reader = reader.schema(case.schema)
    try:
        rows = reader.load().select("topic", "partition", "offset").collect()
    except Exception as exc:  # of Spark's many kinds; the text is what is looked at
        return str(exc)
    return ranges_of(rows, place)


def ranges_of(rows: Iterable[tuple[str, int, int]], place: str) -> Ranges:
    """First offsets, and those behind the last ones, of (topic, partition, offset), which must leave out none."""
    read: dict[str, list[int]] = {}
    for topic, partition, offset in rows:
        read.setdefault(f"{topic.removesuffix('-' + place)}/{partition}", []).append(offset)
    for name, found in read.items():
        assert sorted(found) == list(range(min(found), max(found) + 1)), f"{name}: {found}"
    return {name: (min(found), max(found) + 1) for name, found in read.items()}
