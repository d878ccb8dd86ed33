"""What other programs and operators may have written: nodes, files, configurations, requests to servers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import click

from groundwork.httpserver import BadRequest, is_trusted_name, parse
from groundwork.java import PatternRefused, read_properties, topic_filter
from groundwork.options import OptionError
from groundwork.pauses import pause
from groupadmin.files.model import FileUnclear, OffsetsFile
from groupadmin.files.read import read_offsets
from groupadmin.files.write import unsayable, write_offsets
from groupadmin.migrate import journal
from groupadmin.migrate.planfile import read_plan
from kafkawire.cluster.zookeeper import read_owners, read_topics, read_view
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError, NodeError
from kafkawire.model import BrokerPartition, Message, TopicPartition
from kafkawire.znodes import v07, v08
from kafkawire.znodes.group import STATIC, Registration
from mirrormaker import deadletter
from mirrormaker.config import from_flags, from_yaml
from mirrormaker.control import client
from mirrormaker.control.keptfile import KeptFile, KeptFileUnreadable, KeptFileWrong
from mirrormaker.control.server import ControlServer, Refused
from mirrormaker.limits import Pause, Throttle
from sparkpipeline.errors import PipelineError
from sparkpipeline.ledger.manifests import Manifest, Plan
from tests.fakes.znodes import FakeZookeeper
from tests.fuzz.engine import QUICK_S, Target
from zkconsumer.commands.zkconfig import read_values, zookeeper_of
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Whitelist
from zkconsumer.group.membership import Group, assignment_of, read_group, surplus
from zkconsumer.group.topicnodes import read_topic_nodes
from zkconsumer.group.verify import GroupFacts, verify
from zkconsumer.offsetmap import file as mapfile
from zkconsumer.offsetmap import topic as maptopic
from zkconsumer.offsetmap.records import Begun, Entry, Reached
from zkconsumer.offsetmap.text import Header, header_line, line_of
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.offsets.former import metadata_of, topic_in
from zkconsumer.offsets.migrationmarker import Marker, Phase, marker_text, read_marker
from zkconsumer.offsets.modes import MemberMode, StoreCommit, mode_text, read_mode
from zkconsumer.offsets.zookeeper import position
from zkconsumer.session.zkcalls import Node

ROOT = Path(__file__).parents[3]
TP = TopicPartition("orders", 3)
Read = Callable[[Any], object]


def _tried(reads: Sequence[Read], data: Any, allowed: type[Exception] | tuple[type[Exception], ...]) -> None:
    for read in reads:
        try:
            read(data)
        except allowed:
            pass


@cache
def _folder() -> Path:
    """A folder of this process, for functions that read files."""
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


# ---- nodes -----------------------------------------------------------------------------------------------------

NODES = [
    b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}',
    b'{"endpoints":["a://://:1","SSL://h:9093","X://[::1]:1"],"listener_security_protocol_map":{"X":"SASL_SSL"},"version":4}',
    b"0-1-1:host:9092", b"host-1:h:9092", b"4", b"0", b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}',
    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}', b'{"version":1,"brokerid":1}',
    b'{"version":1,"subscription":{"a":1,"b":2},"pattern":"static","timestamp":"1"}',
    b'{"version":1,"subscription":{"a\\.*":1},"pattern":"white_list","timestamp":"1"}',
    b'{ "t1": 4,"t2": 1 }', b"*4*white.*", b"!2!_.*", b"12345", b"g_host-1-abc-0",
]  # fmt: skip


def _node_seeds() -> list[bytes]:
    marker = marker_text(Marker("p1", Phase.CUTOVER, 5))
    mode = mode_text(MemberMode("dual", StoreCommit(1, 2), StoreCommit(3, 4)))
    return [*NODES, _bytes(marker), _bytes(mode)]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def nodes(data: bytes) -> None:
    """Every reader of a node, also where another node was expected."""
    secure = v08.OfListener("SASL_SSL")
    _tried(
        (
            lambda d: v07.broker(1, d), lambda d: v08.broker(1, d), lambda d: secure.broker(1, d), v07.count, v08.topic,
            v08.state, v08.controller, lambda d: v07.broker_id(d.decode("latin-1")), v07.registration, v08.registration,
        ),
        data,
        NodeError,
    )  # fmt: skip
    _tried((lambda d: read_marker("g", d), read_mode), data, ConsumerError)
    position("/consumers/g/offsets/t/0", Node(data, 0, 0))
    for registration, znodes in ((v07.registration, v07), (v08.registration, v08)):
        try:
            found = registration(data)
        except NodeError:
            continue
        znodes.registration_text(found, 1)
        _tried(
            (lambda d, of=found: [topic_filter(text) for text in of.subscription],), data, (ValueError, ConsumerError)
        )


# ---- names of nodes ----------------------------------------------------------------------------------------------

EIGHT, SEVEN = dialect("0.8.2"), dialect("0.7")


def node_name(data: bytes) -> None:
    """A name, or the text of one, at each place where brokers and members have theirs: it costs its own node."""
    name = data.decode(errors="replace").replace("/", "") or "-"
    quoted = json.dumps(name).encode()
    eight = {
        "/brokers/ids/1": NODES[0],
        f"/brokers/ids/{name}": NODES[0],
        f"/brokers/topics/{name}": b'{"version":1,"partitions":{%s:[1]}}' % quoted,
        "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[1]}}',
        f"/consumers/g/owners/orders/{name}": b"m-0",
        "/consumers/g/owners/orders/0": b"m-" + data,
    }
    seven = {
        "/brokers/ids/1": b"h-1:h:9092",
        f"/brokers/ids/{name}": b"h-1:h:9092",
        f"/brokers/topics/orders/{name}": b"1",
        "/brokers/topics/orders/1": b"2",
        "/brokers/topics/clicks/1": data,
    }
    for d, tree in ((EIGHT, eight), (SEVEN, seven)):
        zk = FakeZookeeper(tree)
        names = read_topics(zk, d.znodes)
        view = read_view(zk, d.znodes, names)
        pause()
        assert 1 in view.brokers
        assert view.partitions("orders")
        assert read_topic_nodes(zk.session(), d, names)["orders"]
        pause()
        owners = read_owners(zk, d.znodes, "g", names)
        streams = {"m": {"orders": 1}}
        verify(GroupFacts(streams, owners, {"orders": [0]}))
        _tried((d.partition,), name, LocalError)


def _subscription_seeds() -> list[bytes]:
    return [data for data in NODES if b"static" in data or b"_list" in data or data[:1] in b"*!{"]


def subscription(data: bytes) -> None:
    """What another member registers, in an assignment: it costs its member, and no memory by its numbers."""
    for d in (EIGHT, SEVEN):
        pause()
        ours = d.znodes.registration_text(Registration(STATIC, {"orders": 2}), 1)
        nodes: dict[str, str | bytes | None] = {"m": ours, "other": data}
        found = read_group("m", nodes, ["orders", "clicks"], d.znodes.registration, leave_out=True)
        if isinstance(found, Group):
            topics = {topic: list(range(9)) for topic in found.topics}
            for strategy in ("range", "roundrobin"):
                assignment_of("m", found, topics, strategy)
                assignment_of("m", found, topics, strategy, relaxed=True)
            surplus(found.threads, topics)


# ---- files -----------------------------------------------------------------------------------------------------


def _offset_file_seeds() -> list[bytes]:
    found = [path.read_bytes() for path in sorted((ROOT / "tests/vectors/offsetfiles").glob("*")) if path.is_file()]
    return [
        *found,
        b"/consumers/g/offsets/orders/0:17\n/consumers/g/offsets/orders/1:-1\n",
        b"group,topic,partition,offset\ng,orders,0,17\ng,orders,1,\n", b'"orders",0,17\n"orders",1,18\n',
        b'{"partitions":[{"topic":"orders","partition":0,"offset":17}],"version":1}', b"orders:0:17\norders:1:18\n",
        b"GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
        b"g orders 0 17 20 3 - - -\ng orders 1 - 20 - - - -\n",
        b"Group Topic Pid Offset logSize Lag Owner\ng orders 0 17 20 3 none\ng orders 0-1 18 20 2 none\n",
        b'{"format":"kafka-offsets","version":1,"groups":{"g":{"orders":{"0":17}}}}', b"# a comment\norders,0,17\n",
    ]  # fmt: skip


def offset_file(data: bytes) -> None:
    """Read it, and write what was read in each form; that is read to the same rows."""
    file = read_offsets(data.decode("utf-8", "surrogateescape") if data[:1] == b"#" else data.decode(errors="replace"))
    for kind in ("json", "zk-export", "csv"):
        if not unsayable(file, kind):  # type: ignore[arg-type]
            try:
                text = write_offsets(file, kind)  # type: ignore[arg-type]
            except ConsumerError:
                continue
            text.encode("utf-8", "surrogateescape")
            again = read_offsets(text) if file.rows else file
            if kind == "json" and _places(again) != _places(file):
                raise AssertionError(f"written as {kind} and read: {_places(again)} and not {_places(file)}")


def _places(file: OffsetsFile) -> list[tuple[object, ...]]:
    return sorted((str(row.group), row.topic, str(row.partition), str(row.position)) for row in file.rows)


def _map_seeds() -> list[bytes]:
    source, target = TP, TopicPartition("copy", BrokerPartition(0, 1))
    records = [Begun(source, 5, 7, True, 9, "copy"), Entry(source, target, 5, 1, 2), Entry(source, target, 9, 3, None)]
    lines = [header_line(Header("dc1", "g")), *(line_of(record) for record in records), line_of(Reached(source, 10))]
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    slots = maptopic.Slots()
    messages = [maptopic.message_of(record, slots) for record in records]
    return [text.encode(), *(key + b"\0" + value for key, value in messages), b"\0".join([*messages[0], *messages[1]])]


def offset_map(data: bytes) -> None:
    try:
        _ = mapfile.understood(data, "m").map
    except ConsumerError:
        pass
    pieces = data.split(b"\0")
    found = [
        Message("m", 0, n, key, value, None, None, None, n + 1)
        for n, (key, value) in enumerate(zip(pieces[::2], pieces[1::2], strict=False))
    ]
    try:
        _ = maptopic.understood(found, "m", maptopic.Slots()).map
    except ConsumerError:
        pass


def _state_seeds() -> list[bytes]:
    offsets = {"version": 1, "group": "g", "offsets": {"orders": {"3": 17}}}
    kept = KeptFile(_folder(), {"dc1": "g"})
    kept.write([Pause(source="dc1", topic="orders", kept=True), Throttle(source="dc1", bytes_per_s=1e6, kept=True)])
    header = journal.header_line(journal.JournalHeader("p", "zk", "kafka", 5))
    events: list[journal.Event] = [
        journal.Begun("g", "cutover"),
        journal.Wrote("g", "cutover", "kafka", TP, before=None, after=5),
    ]
    lines = "\n".join([header, *(journal.line_of(event, n, 6) for n, event in enumerate(events, 2)), ""])
    plan = Plan(3, "load", 5, {"a": 1}, ("x",))
    manifest = Manifest(
        batch=3, kind="load", plan_hash=plan.hash, attempt=1, application="a", started_ms=1, committed_ms=2, files=(),
        supersedes=(), facts={}, version="1",
    )  # fmt: skip
    migration = {
        "format": "zkconsumer.migration.plan/1", "plan": "x", "policies": {}, "direction": "kafka", "groups": [],
        "cluster": "c", "made_at_ms": 5,
    }  # fmt: skip
    return [
        json.dumps(offsets).encode(), kept.path.read_bytes(), lines.encode(), plan.text().encode(),
        manifest.text().encode(), json.dumps(migration).encode(), b'{"answer": [1]}', b'{"error": "no"}',
        metadata_of(None).encode(), b"topic-czxid=5 topic-ctime-ms=6",
    ]  # fmt: skip


def state_file(data: bytes) -> None:
    """Files that a restart reads, each reader with all of them."""
    store = FileOffsets(_folder() / "offsets.json")
    _file("offsets.json", data)
    _tried((lambda d: store.read("g", [TP]),), data, ConsumerError)
    _file("limits.json", data)
    _tried((lambda d: KeptFile(_folder(), {"dc1": "g"}).read(),), data, (KeptFileUnreadable, KeptFileWrong))
    _tried((lambda d: journal.understood(d, "j").standings,), data, ConsumerError)
    text = data.decode(errors="replace")
    _tried((read_plan,), text, ConsumerError)
    _tried((Plan.of, Manifest.of), text, PipelineError)
    _tried((client._answer,), data, (client.Refused, ValueError))
    topic_in(text)
    _tried((deadletter.read,), data, deadletter.NoDeadLetter)


# ---- configurations ----------------------------------------------------------------------------------------------


def _yaml_seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "conf").glob("*.yaml"))] + [
        b"sources:\n- {zookeeper.connect: 'zk1:2181/src', group.id: g}\n"
        b"target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk1:2181/dst'}\n"
        b"mirror: {whitelist: 'a.*'}\n"
    ]


def yaml_config(data: bytes) -> None:
    from_yaml(_file("m.yaml", data))


def _properties_seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "conf").glob("*.properties"))] + [
        b"zookeeper.connect=zk:2181\ngroup.id=g\n", b"a = b\\\n  c\\u0041\n#x\n!y\nk:v",
        b"metadata.broker.list=k:9092\n",
    ]  # fmt: skip


def properties(data: bytes) -> None:
    _tried((read_properties,), data, ValueError)
    path = _file("c.properties", data)
    for given in ((path, ROOT / "conf/producer.properties"), (ROOT / "conf/consumer.properties", path)):
        try:
            from_flags([given[0]], given[1], {"whitelist": "a.*"})
        except OptionError:
            pass


def command_config(data: bytes) -> None:
    """--zk-config and --command-config, as YAML or properties by the first byte."""
    path = _file("c.yaml" if data[:1] < b"\x80" else "c.properties", data[1:])
    values, jvm = read_values(path)
    zookeeper_of(None, values, path.name, jvm)


def filters(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        Whitelist(text).matches("a" * 255)  # a blacklist is the same, and its opposite
    except PatternRefused:
        pass


# ---- servers -----------------------------------------------------------------------------------------------------


def _http_seeds() -> list[bytes]:
    return [b"GET / HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*", b"HEAD /a%20b?x=1 HTTP/1.0\r\nHost: [::1]:80"]


def http_request(data: bytes) -> None:
    request = parse(data)
    is_trusted_name(request.headers.get("host", ""))


def _control_seeds() -> list[bytes]:
    rows = [
        ("status", {}), ("pause", {"what": "orders", "keep": False}), ("pause", {"what": "orders:0", "source": "dc1"}),
        ("resume", {"what": "orders"}), ("throttle", {"what": "orders", "bytes_per_s": 1e6}), ("parked", {}),
        ("throttle", {"what": "orders", "off": True}), ("set-log-level", {"level": "debug"}), ("topics", {"all": True}),
        ("retry", {"what": "orders:0"}), ("release", {"what": "orders:0", "offset": 5, "reason": "x"}), ("limits", {}),
        ("shares", {"shares": [["dc1", "orders", 0.5]]}), ("status", {"every_s": 1}),
    ]  # fmt: skip
    return [json.dumps({"command": command, "arguments": arguments}).encode() for command, arguments in rows]


@cache
def _control() -> ControlServer:
    from tests.fuzz.targets.mirror import actions

    return ControlServer(None, actions())  # type: ignore[arg-type]


def control_request(data: bytes) -> None:
    """Every answer is one line of JSON: an error, or what was asked for."""
    for line in islice(_control()._answers(data), 1):  # more come of a stream alone
        assert line.count(b"\n") == 0
        json.loads(line)


TARGETS: Sequence[Target] = (
    Target("nodes", _node_seeds, nodes, (), QUICK_S),
    Target("node-names", lambda: [b"1", b"0-1", b"orders", "²".encode(), b"9" * 4301, b"2147483648"], node_name, (),
           QUICK_S),
    Target("subscriptions", _subscription_seeds, subscription, (), QUICK_S),
    Target("offset-files", _offset_file_seeds, offset_file, (FileUnclear,)),
    Target("offset-maps", _map_seeds, offset_map, ()),
    Target("state-files", _state_seeds, state_file, ()),
    Target("config-yaml", _yaml_seeds, yaml_config, (OptionError,)),
    Target("config-properties", _properties_seeds, properties, ()),
    Target("command-config", lambda: [b"\0" + d for d in _yaml_seeds()] + [b"\xff" + d for d in _properties_seeds()],
           command_config, (click.UsageError,)),
    Target("filters",
           lambda: [b"orders.*,clicks|a[b-d]", b"(?i)x{2,3}\\p{Alpha}", b"a|b|(c)", b"(?:(?=(?:a|||)*)a)*!"],
           filters, (), QUICK_S),
    Target("http", _http_seeds, http_request, (BadRequest,)),
    Target("control", _control_seeds, control_request, (Refused,)),
)  # fmt: skip
