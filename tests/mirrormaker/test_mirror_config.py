"""Configurations: what is taken, and the exact sentence about what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.options import OptionError, Secret
from groundwork.zksecurity import Tls, ZkSecurity
from mirrormaker.config import Configuration, from_flags, from_yaml, loops, merging

CONF = Path(__file__).parents[2] / "conf"

SOURCE = "sources:\n- {zookeeper.connect: 'zk1:2181/src', group.id: g}\n"
TARGET = "target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk1:2181/dst'}\n"
MIRROR = "mirror: {whitelist: 'a.*'}\n"


def yaml_file(folder: Path, text: str) -> Path:
    path = folder / "m.yaml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(OptionError) as wrong:
        from_yaml(yaml_file(folder, text))
    return wrong.value.problems


def test_a_mirror_is_called_as_its_file_or_as_the_option_says(tmp_path: Path) -> None:
    assert from_yaml(yaml_file(tmp_path, SOURCE + TARGET + MIRROR)).shown_name == "m"
    named = from_yaml(yaml_file(tmp_path, SOURCE + TARGET + "mirror: {whitelist: 'a.*', name: 'to dc2'}\n"))
    assert (named.shown_name, named.name) == ("to dc2", "m"), "the control socket stays where commands look for it"


MIRRORS = sorted(path for path in CONF.glob("*.yaml") if "\nsources:" in path.read_text())


@pytest.mark.parametrize("path", MIRRORS, ids=lambda path: path.name)
def test_the_examples_are_right_and_safe(path: Path) -> None:
    configuration = from_yaml(path)
    assert (configuration.warnings, configuration.notes) == ((), ())
    assert configuration.target.acks == -1
    assert {source.auto_offset_reset for source in configuration.sources} == {"smallest"}


def test_the_example_properties_are_right_and_name_what_means_nothing_here() -> None:
    configuration = from_flags([CONF / "consumer.properties"], CONF / "producer.properties", {"whitelist": "a.*"})
    assert configuration.warnings == (
        "producer.properties: ignored: producer.type (sending is always asynchronous, and nothing is committed before "
        "it is acknowledged)",
    )
    assert configuration.notes == ()


LOGIN = "sasl.mechanism: PLAIN, sasl.username: u, sasl.password: hidden"


@pytest.mark.parametrize(
    ("of_source", "said"),
    [
        (
            f"security.protocol: SASL_PLAINTEXT, {LOGIN}",
            ["PLAIN over SASL_PLAINTEXT: the network and anyone who registers a broker can read"],
        ),
        (f"security.protocol: SASL_SSL, {LOGIN}", ["brokers come from ZooKeeper, and anyone who registers"]),
        (f"security.protocol: SASL_SSL, sasl.hosts: .example.com, {LOGIN}", []),
        (f"security.protocol: SASL_PLAINTEXT, {LOGIN.replace('PLAIN', 'SCRAM-SHA-256')}", []),
        ("security.protocol: SSL, ssl.endpoint.identification.algorithm: none", ["is accepted as a broker"]),
        ("zookeeper.auth: 'digest:u:hidden'", ["zookeeper.auth without zookeeper.ssl.client.enable"]),
        ("zookeeper.ssl.client.enable: true, zookeeper.ssl.verify: false", ["any server is accepted as ZooKeeper"]),
    ],
)
def test_settings_that_tell_a_secret_to_strangers_are_named(tmp_path: Path, of_source: str, said: list[str]) -> None:
    path = yaml_file(tmp_path, SOURCE.replace("group.id", f"{of_source}, group.id") + TARGET + MIRROR)
    path.chmod(0o640)
    notes = from_yaml(path).notes
    assert len(notes) == len(said)
    assert all(part in note and "hidden" not in note for part, note in zip(said, notes, strict=True))


def test_secrets_that_every_user_may_read_are_named(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hidden")
    scram = "security.protocol: SASL_PLAINTEXT, sasl.mechanism: SCRAM-SHA-256, sasl.username: u"
    text = SOURCE.replace("group.id", f"{scram}, sasl.password: 'file:{secret}', group.id")
    path = yaml_file(tmp_path, text + TARGET.replace("}", f", {scram}, sasl.password: hidden}}") + MIRROR)
    for each in (secret, path):
        each.chmod(0o644)
    assert from_yaml(path).notes == (
        f"m.yaml: source source: sasl.password: every user may read {secret}; chmod o-r",
        f"m.yaml: target: sasl.password: every user may read it in {path}; chmod o-r, or use file: with another file",
    )
    for each in (secret, path):
        each.chmod(0o640)
    assert from_yaml(path).notes == ()


def test_both_lists_may_be_given_as_flags() -> None:
    flags = {"whitelist": "orders.*,clicks", "blacklist": ".*-test"}
    mirror = from_flags([CONF / "consumer.properties"], CONF / "producer.properties", flags).mirror
    found = [topic for topic in ("orders", "orders-test", "clicks", "other") if mirror.topics.matches(topic)]
    assert found == ["orders", "clicks"]


def test_topics_that_several_sources_may_be_merged_into_are_named(tmp_path: Path) -> None:
    def named(near: str, far: str, mirror: str) -> list[str]:
        sources = "".join(
            f"- {{zookeeper.connect: 'zk{n}:2181', group.id: g, name: {name}{more}}}\n"
            for n, (name, more) in enumerate((("near", near), ("far", far)), 2)
        )
        found = from_yaml(yaml_file(tmp_path, f"sources:\n{sources}{TARGET}mirror: {{{mirror}}}\n"))
        assert found.warnings == ()  # it may be what is wanted
        return list(merging(found.sources, found.mirror))

    merged = (
        "sources near and far: topics of one name are merged in the target, without an order between the sources; "
        "check --online names them, a topic.prefix for each keeps them apart"
    )
    assert named("", "", "whitelist: 'a.*'") == [merged]
    assert named(", topic.prefix: x.", ", topic.prefix: x.", "whitelist: 'a.*'") == [merged]
    assert named("", ", topic.prefix: far.", "whitelist: 'a.*'") == []
    assert named("", ", topic.prefix: far.", "whitelist: 'a.*', topic.rename: {ab: b}") == [
        "target topic b is fed by near/ab and far/ab: their messages are merged"
    ]


def test_a_mirror_commits_what_is_acknowledged_starts_at_the_smallest_offset_and_tries_for_ever(tmp_path: Path) -> None:
    configuration = from_yaml(yaml_file(tmp_path, SOURCE + TARGET + MIRROR))
    [source] = configuration.sources
    assert (source.name, source.version, source.auto_offset_reset) == ("source", "", "smallest")
    assert (source.auto_commit, source.auto_commit_interval_ms, source.consumer_timeout_ms) == (True, 5000, -1)
    assert (configuration.target.acks, configuration.target.retries) == (-1, -1)
    assert (configuration.warnings, configuration.notes) == ((), ())


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            SOURCE + TARGET + "mirror: {whitelist: a, num.steams: 2}\n",
            ["m.yaml: mirror: option 'num.steams' is unknown; did you mean 'num.streams'?"],
        ),
        (
            "sources:\n- {zookeeper.conect: 'zk:1', group.id: g}\n" + TARGET + MIRROR,
            [
                "m.yaml: sources[0]: option 'zookeeper.conect' is unknown; did you mean 'zookeeper.connect'?",
                "m.yaml: sources[0]: option 'zookeeper.connect' is missing: "
                "ZooKeeper of the cluster to read: host:port,host:port/chroot; optional with coordination kafka, "
                "to check at the start that the group has left it",
            ],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, num.streams: two}\n",
            ["m.yaml: mirror: option 'num.streams' is 'two', expected a whole number"],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, offset.commit.interval.ms: 1}\n",
            ["m.yaml: mirror: option 'offset.commit.interval.ms' is 1, expected at least 100 ms"],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, partitioning: random}\n",
            ["m.yaml: mirror: option 'partitioning' is 'random', expected one of auto, identity, key"],
        ),
        (
            "sources: zk1:2181\n" + TARGET + MIRROR,
            ["m.yaml: option 'sources' is 'zk1:2181', expected a list of sections"],
        ),
        ("sources: []\n" + TARGET + MIRROR, ["m.yaml: sources is empty: a mirror needs at least one"]),
        (SOURCE + TARGET, ["m.yaml: option 'mirror' is missing: what is mirrored, and how"]),
        ("- a\n", ["m.yaml: expected the sections sources, target and mirror"]),
        (
            SOURCE + TARGET + "mirror: {}\n",
            ["m.yaml: mirror: 'whitelist', 'blacklist' or both must say which topics are mirrored; none is given"],
        ),
        (
            SOURCE + TARGET + r"mirror: {whitelist: '(a)b\1', blacklist: '(b)'}" + "\n",
            [
                r"m.yaml: mirror: options 'whitelist' and 'blacklist' together: topic filter '(a)b\\1' refers to a "
                r"group of its own by \1 or by name, which may be another one behind the groups of '(b)': write one "
                "pattern that says both, (?!(?:black)$)(?:white)"
            ],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, topic.rename: {a: 'b c'}}\n",
            [
                "m.yaml: mirror: option 'topic.rename' is a mapping, expected names that brokers take, and not 'b c': "
                "a name has letters a to z, digits, '.', '_' and '-', and is not '.' or '..'"
            ],
        ),
        (
            SOURCE.replace("}", ", topic.prefix: 'dc 1'}") + TARGET + MIRROR,
            [
                "m.yaml: sources[0]: option 'topic.prefix' is 'dc 1', expected text of ASCII letters, digits, '.', '_' "
                "and '-' (for example dc1.)"
            ],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, topic.rename: 'a:__transaction_state'}\n",
            [
                "m.yaml: mirror: option 'topic.rename' is 'a:__transaction_state', expected another name than "
                "__transaction_state, which is internal: brokers of some release keep their own state in a topic of "
                "that name"
            ],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, offset.map.topic: __cluster_metadata}\n",
            [
                "m.yaml: mirror: 'offset.map.topic' is __cluster_metadata, which is internal: brokers of some release "
                "keep their own state in a topic of that name"
            ],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, message.handler: 'json:nothing'}\n",
            ["m.yaml: mirror: message.handler 'json:nothing': json has no nothing"],
        ),
        (
            SOURCE.replace("}", ", topic.prefix: copy.}")
            + "target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk1:2181/src'}\n"
            + "mirror: {blacklist: 'copy.*', offset.map.topic: map}\n",
            [
                "m.yaml: source source: zookeeper.connect and target.zookeeper.connect name the same cluster "
                "(zk1:2181/src): offset.map.topic map would be mirrored, and its messages be mapped again: blacklist it"
            ],
        ),
        (
            SOURCE.replace("}", ", topic.prefix: copy.}")
            + "target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk1:2181/src'}\n"
            + MIRROR.replace("a.*", "[ac].*"),
            [
                "m.yaml: source source: zookeeper.connect and target.zookeeper.connect name the same cluster "
                "(zk1:2181/src): topic copy.topic goes to copy.copy.topic in the cluster that it comes from, and "
                "copy.copy.topic is mirrored as well (whitelist '[ac].*' matches): it would feed itself; give it "
                "another name (topic.rename, topic.prefix) that whitelist and blacklist leave out"
            ],
        ),
        (
            SOURCE + TARGET + "mirror: {whitelist: a, partitioning: key, target.grow.partitions: true}\n",
            [
                "m.yaml: mirror.target.grow.partitions with mirror.partitioning key: with more partitions keys would "
                "move to others; leave one of the two out"
            ],
        ),
        (
            SOURCE
            + "target: {metadata.broker.list: 'k:9092', target.version: 0.8.2}\n"
            + "mirror: {whitelist: a, target.grow.partitions: true}\n",
            [
                "m.yaml: mirror.target.grow.partitions: brokers of target.version 0.8.2 have no request for it (1.0 "
                "and later have), and target.zookeeper.connect, through which it is done before, is not given"
            ],
        ),
        (
            SOURCE
            + "target: {metadata.broker.list: 'k:1', target.version: 0.10.2, target.zookeeper.connect: 'zk:1'}\n"
            + "mirror: {whitelist: a, delivery.guarantee: exactly-once}\n",
            [
                "m.yaml: delivery.guarantee: exactly-once needs a target of 0.11 or later, and it is 0.10.2: set "
                "resume: target-end, which needs no transactions, or at-least-once; or correct target.version"
            ],
        ),
        (
            SOURCE + "target: {metadata.broker.list: 'k:9092', request.required.acks: 0}\n" + MIRROR,
            [
                "m.yaml: target: request.required.acks=0 is refused: "
                "what is not acknowledged could never be committed; use -1"
            ],
        ),
        (
            SOURCE + "target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'ZK1/src/'}\n" + MIRROR,
            [
                "m.yaml: source source: zookeeper.connect and target.zookeeper.connect name the same cluster "
                "(ZK1/src): a mirror into its own source never ends; topic.prefix or topic.rename gives topics "
                "another name"
            ],
        ),
        (
            SOURCE + "target: {metadata.broker.list: 'k:9092', target.zookeeper.auth: 'digest:ann:s3cret'}\n" + MIRROR,
            [
                "m.yaml: target: 'target.zookeeper.auth' and '.ssl' say how 'target.zookeeper.connect' is reached, "
                "which is not given"
            ],
        ),
        (
            SOURCE + TARGET.replace("}", ", target.zookeeper.auth: 's3cret', target.zookeeper.set.acl: true}") + MIRROR,
            [
                "m.yaml: target: option 'target.zookeeper.set.acl' is unknown; did you mean 'target.zookeeper.auth'?",
                "m.yaml: target: option 'target.zookeeper.auth' is ***, expected digest:USER:PASSWORD",
            ],
        ),
        (
            SOURCE + TARGET.replace("}", ", target.zookeeper.ssl.key.location: key.pem}") + MIRROR,
            [
                "m.yaml: target: files of 'target.zookeeper.ssl' are given, but 'target.zookeeper.ssl.client.enable' "
                "is false: nothing would be TLS",
                "m.yaml: target: 'target.zookeeper.ssl.key.location' needs 'target.zookeeper.ssl.certificate.location'",
            ],
        ),
        (
            "sources:\n- {name: a, zookeeper.connect: 'zk:1/a', group.id: g}\n"
            "- {name: a, zookeeper.connect: 'zk:1/b', group.id: g}\n" + TARGET + MIRROR,
            ["m.yaml: two sources have the same name; logs and status could not tell them apart"],
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, text: str, sentences: list[str]) -> None:
    assert problems(tmp_path, text) == sentences


def test_the_targets_zookeeper_is_told_who_we_are_by_either_kind_of_file(tmp_path: Path) -> None:
    more = "target.zookeeper.auth: 'digest:ann:s3cret', target.zookeeper.ssl.client.enable: true, target.zookeeper.ssl"
    target = TARGET.replace("}", f", {more}.ca.location: ca.pem, target.zookeeper.ssl.verify: false}}")
    access = ZkSecurity(Secret("digest:ann:s3cret"), tls=Tls(ca="ca.pem", verify=False, options="target.zookeeper.ssl"))
    configuration = from_yaml(yaml_file(tmp_path, SOURCE + target + MIRROR))
    assert configuration.target.security == access
    assert "s3cret" not in repr(configuration)
    lines = target.removeprefix("target: {").removesuffix("}\n").replace("'", "").split(", ")
    producer = "\n".join(line.replace(": ", "=", 1) for line in lines)
    configuration = properties(tmp_path, "zookeeper.connect=zk:1/a\ngroup.id=g\n", producer)
    assert configuration.target.security == access


def test_a_regex_that_java_would_not_take_is_named(tmp_path: Path) -> None:
    [sentence] = problems(tmp_path, SOURCE + TARGET + "mirror: {whitelist: 'a(b'}\n")
    assert sentence.startswith("m.yaml: mirror: option 'whitelist' is 'a(b': ")


def test_a_release_that_is_not_known_is_named_with_the_nearest(tmp_path: Path) -> None:
    text = SOURCE + "target: {metadata.broker.list: 'k:9092', target.version: '0.6'}\n" + MIRROR
    [sentence] = problems(tmp_path, text)
    assert sentence.startswith("m.yaml: target: option 'target.version' is '0.6', expected a Kafka release: ")


def test_broken_yaml_and_missing_files_are_one_sentence(tmp_path: Path) -> None:
    [sentence] = problems(tmp_path, "sources: [\n")
    assert sentence.startswith("m.yaml: not YAML: ")
    with pytest.raises(OptionError, match=r"gone\.yaml: cannot be read: No such file or directory"):
        from_yaml(tmp_path / "gone.yaml")


def test_a_tab_and_a_key_that_is_another_names_are_told_as_what_they_are(tmp_path: Path) -> None:
    assert problems(tmp_path, f"{SOURCE}mirror:\n\twhitelist: a\n") == [
        "m.yaml: not YAML: a tab in line 4, column 1: YAML is indented by blanks alone"
    ]
    assert problems(tmp_path, f"{SOURCE}{TARGET}mirror: {{topics: a}}\n") == [
        "m.yaml: mirror: option 'topics' is unknown; did you mean 'whitelist'?"
    ]


def test_a_listeners_address_is_taken_from_a_jvm_file_and_told_elsewhere(tmp_path: Path) -> None:
    """PLAINTEXT://k:9092 was taken for an IPv6 address without brackets."""
    configuration = properties(tmp_path, CONSUMER, "bootstrap.servers=PLAINTEXT://k:9092,plaintext://l:9092\n")
    assert configuration.target.brokers == (("k", 9092), ("l", 9092))
    (said,) = problems(tmp_path, SOURCE + TARGET.replace("k:9092", "SSL://k:9092") + MIRROR)
    assert "'SSL://k:9092' is a listener's address; give k:9092 alone" in said


def test_every_problem_of_a_file_is_found_at_once(tmp_path: Path) -> None:
    assert len(problems(tmp_path, SOURCE + "target: {metadata.broker.lst: k}\nmirror: {whitelst: a}\n")) >= 3


@pytest.mark.parametrize(
    ("line", "section", "name"),
    [
        ("mirror.delivery.guarantee: exactly-once", "mirror", "delivery.guarantee"),
        ("target.version: '3.9'", "target", "target.version"),
    ],
)
def test_an_option_outside_of_its_section_is_shown_its_place(
    tmp_path: Path, line: str, section: str, name: str
) -> None:
    """As docs name it, where they name no section."""
    (found,) = problems(tmp_path, f"{SOURCE}{TARGET}{MIRROR}\n{line}\n")
    key = line.partition(":")[0]
    assert found == f"m.yaml: option '{key}' is outside of its section: put it into '{section}', as '{name}'"


def test_in_its_section_an_option_has_the_name_that_pages_and_messages_print_too(tmp_path: Path) -> None:
    whole = (
        "mirror:\n  mirror.whitelist: 'a.*'\n  mirror.drop.fields: headers\n  mirror.topic.overrides:\n"
        "  - {topics: a1, mirror.oversize.policy: skip}\n"
    )
    mirror = from_yaml(yaml_file(tmp_path, SOURCE + TARGET + whole)).mirror
    assert (mirror.whitelist, mirror.drop_fields, mirror.policies("a1").oversize) == ("a.*", ("headers",), "skip")
    assert problems(tmp_path, f"{SOURCE}{TARGET}{whole}  drop.fields: timestamps\n  mirror.drop.feilds: headers\n") == [
        "m.yaml: mirror: option 'mirror.drop.feilds' is unknown; did you mean 'drop.fields'?",
        "m.yaml: mirror: options 'drop.fields' and 'mirror.drop.fields' are two names of one thing and differ: "
        "'timestamps', 'headers'; keep 'drop.fields'",
    ]


def test_what_is_allowed_and_unsafe_is_named_one_by_one(tmp_path: Path) -> None:
    text = (
        "sources:\n- {zookeeper.connect: 'zk:1/a', group.id: g, auto.offset.reset: largest}\n"
        "target: {metadata.broker.list: 'k:9092', request.required.acks: 1}\n" + MIRROR
    )
    found = from_yaml(yaml_file(tmp_path, text))
    assert found.notes == (
        "m.yaml: source source: auto.offset.reset=largest: messages written before the first start, or lost to "
        "retention, are skipped",
        "m.yaml: target: request.required.acks=1: a leader that fails loses what only it has; -1 is safe",
    )
    left = (
        "m.yaml: target: target.zookeeper.connect is not given: the target's auto-creation decides the partition count "
        "of topics that are missing there"
    )
    assert found.warnings == ()  # of a release that is not named brokers are asked
    named = text.replace("metadata.broker.list", "target.version: 0.8.2, metadata.broker.list")
    assert from_yaml(yaml_file(tmp_path, named)).notes[-1] == left
    newer = text.replace("metadata.broker.list", "target.version: '3.9', metadata.broker.list")
    assert left not in " ".join(
        (*from_yaml(yaml_file(tmp_path, newer)).notes, *from_yaml(tmp_path / "m.yaml").warnings)
    )


def test_a_name_that_is_internal_at_the_target_is_told_where_prefix_or_whitelist_make_it(tmp_path: Path) -> None:
    of_prefix = SOURCE.replace("}", ", topic.prefix: __}") + TARGET + "mirror: {whitelist: 'transaction.*'}\n"
    assert from_yaml(yaml_file(tmp_path, of_prefix)).notes == (
        "m.yaml: source source: topic transaction_state would be written to __transaction_state, which is internal: "
        "brokers of some release keep their own state in a topic of that name; blacklist it, or give it another name "
        "(topic.rename, topic.prefix): it is held back",
    )
    named = TARGET + "mirror: {whitelist: 'a,__share_group_state'}\n"
    assert from_yaml(yaml_file(tmp_path, SOURCE + named)).notes == ()  # exclude.internal.topics leaves it out
    [note] = from_yaml(yaml_file(tmp_path, SOURCE.replace("}", ", exclude.internal.topics: false}") + named)).notes
    assert "topic __share_group_state would be written to __share_group_state, which is internal" in note
    assert from_yaml(yaml_file(tmp_path, SOURCE + TARGET + "mirror: {whitelist: '.*'}\n")).notes == ()


def test_what_the_mirror_writes_for_itself_is_told_where_a_source_topic_would_go_there(tmp_path: Path) -> None:
    own = "offset.map.topic: mirror.map, dead.letter.topic: dead"
    two = "sources:\n- {name: a, zookeeper.connect: 'zk:1/a', group.id: g}\n"
    two += "- {name: b, zookeeper.connect: 'zk:1/b', group.id: g, topic.prefix: mirror.}\n"
    notes = from_yaml(yaml_file(tmp_path, two + TARGET + f"mirror: {{whitelist: '.*', {own}}}\n")).notes
    said = [note.removeprefix("m.yaml: source ").partition(" would be written to ")[0] for note in notes]
    assert said == [
        "a: topic dead", "a: topic mirror.map", "a: topic mirror.map.a", "a: topic mirror.map.b",
        "b: topic map", "b: topic map.a", "b: topic map.b",
    ]  # fmt: skip
    assert notes[1].endswith(
        "would be written to mirror.map, which the mirror itself writes (offset.map.topic); blacklist it, or give it "
        "another name (topic.rename, topic.prefix): it is held back"
    )
    left = f"mirror: {{whitelist: '.*', blacklist: '(mirror.)?map.*|dead', {own}}}\n"
    assert from_yaml(yaml_file(tmp_path, two + TARGET + left)).notes == ()


@pytest.mark.parametrize(
    ("mirror", "sentence"),
    [
        (
            "{whitelist: a, offset.map.topic: m, topic.rename: 'a:m.source'}",
            "m.yaml: source source: topic a would be written to m.source, which the mirror itself writes "
            "(offset.map.topic); blacklist it, or give it another name (topic.rename, topic.prefix)",
        ),
        (
            "{whitelist: a, reserved.topics: 'm,n', topic.rename: 'a:n'}",
            "m.yaml: source source: topic a would be written to n, which reserved.topics 'm,n' keeps for others; "
            "blacklist it, or give it another name (topic.rename, topic.prefix)",
        ),
        (
            "{whitelist: a, reserved.topics: '*'}",
            "m.yaml: mirror: option 'reserved.topics' is '*': topic filter '*': * has nothing to repeat: a "
            "topic filter is a Java regular expression; write .*",
        ),
        (
            "{whitelist: a, dead.letter.topic: m.b, offset.map.topic: m}",
            "m.yaml: 'dead.letter.topic' is m.b, which the mirror itself writes (offset.map.topic): give them two "
            "names",
        ),
    ],
)
def test_what_is_renamed_to_a_topic_that_the_mirror_writes_for_itself_is_refused(
    tmp_path: Path, mirror: str, sentence: str
) -> None:
    source = SOURCE if "rename" in mirror else SOURCE.replace("{", "{name: b, ")
    assert problems(tmp_path, source + TARGET + f"mirror: {mirror}\n") == [sentence]


def properties(folder: Path, consumer: str, producer: str, unknown: str = "error", **flags: str) -> Configuration:
    (folder / "c.properties").write_text(consumer)
    (folder / "p.properties").write_text(producer)
    return from_flags([folder / "c.properties"], folder / "p.properties", {"whitelist": "a", **flags}, unknown)


def test_properties_without_a_reset_never_start_a_mirror_at_the_end(tmp_path: Path) -> None:
    configuration = properties(tmp_path, "zookeeper.connect=zk:1/a\ngroup.id=g\n", "metadata.broker.list=k:9092\n")
    assert configuration.sources[0].auto_offset_reset == "smallest"
    named = properties(
        tmp_path, "zookeeper.connect=zk:1/a\ngroup.id=g\nauto.offset.reset=largest\n", "metadata.broker.list=k:9092\n"
    )
    assert named.sources[0].auto_offset_reset == "largest"


def test_the_names_of_0_7_are_of_0_7(tmp_path: Path) -> None:
    configuration = properties(tmp_path, "zk.connect=zk:1/a\ngroupid=g\n", "zk.connect=zk:1/b\n")
    source, target = configuration.sources[0], configuration.target
    assert (source.group_id, source.zookeeper_connect, source.version) == ("g", "zk:1/a", "0.7.2")
    assert (target.zookeeper, target.version, target.brokers) == ("zk:1/b", "0.7.2", ())
    assert configuration.warnings == (
        "c.properties: taken: 'zk.connect' is a name of 0.7: version=0.7.2; give 'version' if it is a later one",
        "p.properties: taken: 'zk.connect' alone is of 0.7: target.version=0.7.2",
    )
    named = properties(tmp_path, "zk.connect=zk:1/a\ngroupid=g\nversion=0.8.2\n", "broker.list=k:9092\n")
    assert (named.sources[0].version, named.target.version, named.target.brokers) == ("0.8.2", "", (("k", 9092),))


def test_a_producers_file_of_0_7_is_told_what_helps_and_all_that_is_wrong(tmp_path: Path) -> None:
    """'metadata.broker.list is missing … not for 0.7' was all that a file with zk.connect was told."""
    with pytest.raises(OptionError) as wrong:
        properties(tmp_path, "zk.connect=zk:1/a\ngroupid=g\nfetch.size=big\n", "broker.list=0:k:9092\nqueue.time=x\n")
    assert wrong.value.problems == [
        "c.properties: option 'fetch.size' is 'big', expected a whole number of bytes",
        "p.properties: option 'broker.list' (0:k:9092) names brokers of 0.7 by id, and only ZooKeeper knows their "
        "partitions: give 'zk.connect' in its place; for a later target give 'metadata.broker.list', host:port,…",
        "p.properties: option 'queue.time' is 'x', expected a whole number of ms",
    ]
    with pytest.raises(OptionError) as wrong:
        properties(tmp_path, CONSUMER, "zk.connect=zk:1/b\ntarget.version=0.8.2\n")
    assert wrong.value.problems == [
        "p.properties: option 'metadata.broker.list' is missing: bootstrap brokers, host:port,…; of a later release "
        "than 0.7 'zookeeper.connect' (zk.connect) finds none"
    ]


def test_what_a_mirror_does_its_own_way_is_said_in_a_line_for_each_file(tmp_path: Path) -> None:
    configuration = properties(
        tmp_path,
        "zookeeper.connect=zk:1/a\ngroup.id=g\nauto.commit.enable=false\nconsumer.timeout.ms=10000\n",
        "metadata.broker.list=k:9092\nmessage.send.max.retries=3\nretries=3\n",
    )
    assert configuration.warnings == (
        "c.properties: ignored: auto.commit.enable (a mirror commits what is acknowledged, every "
        "offset.commit.interval.ms); consumer.timeout.ms (a mirror waits for messages for ever)",
        "p.properties: ignored: retries, message.send.max.retries (a mirror retries for ever, and commits nothing "
        "meanwhile)",
    )
    assert configuration.target.retries == -1
    of_yaml = SOURCE.replace("group.id", "auto.commit.enable: false, group.id") + TARGET + MIRROR
    assert from_yaml(yaml_file(tmp_path, of_yaml)).warnings == (
        "m.yaml: source source: option 'auto.commit.enable' has no effect here: a mirror always commits what is "
        "acknowledged",
    )


def test_warnings_are_told_where_there_are_errors(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as wrong:
        properties(tmp_path, f"{CONSUMER}heartbeat.interval.ms=1\nfetch.message.max.bytes=x\n", "acks=0\n")
    assert wrong.value.problems == [
        "c.properties: option 'fetch.message.max.bytes' is 'x', expected a whole number of bytes",
        "p.properties: option 'metadata.broker.list' is missing: bootstrap brokers, host:port,…; not for 0.7: its "
        "brokers know no others",
    ]
    assert wrong.value.warnings == [
        "c.properties: ignored: heartbeat.interval.ms (it follows from session.timeout.ms)",
        "p.properties: taken: acks=0 as -1: what is not acknowledged could never be committed",
    ]


def test_what_stands_between_the_parts_is_told_beside_what_is_wrong_in_one(tmp_path: Path) -> None:
    text = (
        SOURCE
        + TARGET.replace("}", ", request.required.acks: 0, linger: 1}")
        + "mirror: {whitelist: a, nmu.streams: 2}"
    )
    assert problems(tmp_path, text) == [
        "m.yaml: target: option 'linger' is unknown",
        "m.yaml: mirror: option 'nmu.streams' is unknown; did you mean 'num.streams'?",
        "m.yaml: target: request.required.acks=0 is refused: what is not acknowledged could never be committed; use -1",
    ]


def test_refused_acks_and_unsafe_settings_name_the_file_they_stand_in(tmp_path: Path) -> None:
    consumer = "zookeeper.connect=zk:1/a\ngroup.id=g\nauto.offset.reset=largest\n"
    with pytest.raises(OptionError, match=r"^m\.yaml: target: request\.required\.acks=0 is refused"):
        from_yaml(yaml_file(tmp_path, SOURCE + TARGET.replace("}", ", request.required.acks: 0}") + MIRROR))
    notes = properties(tmp_path, consumer, "metadata.broker.list=k:9092\nrequest.required.acks=1\n").notes
    assert [note.split(": ")[:2] for note in notes] == [
        ["c.properties", "source source"],
        ["p.properties", "target"],
    ]


@pytest.mark.parametrize("version", ["0.8.2", "0.9"])
def test_a_number_of_replicas_is_taken_as_all_of_them(version: str, tmp_path: Path) -> None:
    consumer, producer = "zookeeper.connect=zk:1/a\ngroup.id=g\n", "metadata.broker.list=k:9092\n"
    given = f"{producer}request.required.acks=2\ntarget.version={version}\n"
    configuration = properties(tmp_path, consumer, given)
    assert configuration.target.acks == -1
    (warning,) = configuration.warnings
    assert warning.startswith("p.properties: target: request.required.acks=2 is taken as -1, all in-sync replicas")
    given = f"{producer}request.required.acks=-1\ntarget.version={version}\n"
    assert properties(tmp_path, consumer, given).warnings == ()


def test_properties_are_read_in_the_jvms_encoding(tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_bytes(
        "# für die Bestände\nzookeeper.connect=zk:1/a\ngroup.id=g\n".encode("latin-1")
    )
    (tmp_path / "p.properties").write_text("metadata.broker.list=k:9092\nclient.id=gr\\u00fcn\n")
    configuration = from_flags([tmp_path / "c.properties"], tmp_path / "p.properties", {"whitelist": "a"})
    assert (configuration.sources[0].group_id, configuration.target.client_id) == ("g", "grün")


def test_one_consumer_config_given_twice_is_refused(tmp_path: Path) -> None:
    properties(tmp_path, "zookeeper.connect=zk:1/a\ngroup.id=g\n", "metadata.broker.list=k:9092\n")
    one, again = tmp_path / "c.properties", tmp_path / "." / "c.properties"
    with pytest.raises(OptionError) as wrong:
        from_flags([one, again], tmp_path / "p.properties", {"whitelist": "a"})
    assert wrong.value.problems == [
        f"--consumer.config {again} is given twice: each of its messages would be read twice"
    ]


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("h", "in two groups: each message would be delivered twice; keep one"),
        ("g", "in the same group: keep one; num.streams gives it more streams"),
    ],
)
def test_two_sources_that_are_one_cluster_are_refused_by_name(tmp_path: Path, group: str, why: str) -> None:
    text = (
        "sources:\n- {name: a, zookeeper.connect: 'zk1:1,zk2:1/k', group.id: g}\n"
        f"- {{name: b, zookeeper.connect: 'zk2:1/k', group.id: {group}}}\n"
    )
    assert problems(tmp_path, text + TARGET + MIRROR) == [
        f"m.yaml: sources a and b read the same cluster (zk2:1/k) {why}"
    ]


def test_a_key_given_twice_is_an_error_with_both_lines(tmp_path: Path) -> None:
    text = "mirror:\n  whitelist: a\n  num.streams: 1\n  whitelist: b\n" + SOURCE + TARGET + "target: {}\n"
    assert problems(tmp_path, text) == [
        "m.yaml: line 4: 'whitelist' is given twice, first in line 2",
        "m.yaml: line 8: 'target' is given twice, first in line 7",
    ]


def test_what_an_anchor_brings_may_be_given_again(tmp_path: Path) -> None:
    text = (
        "sources:\n- &one {zookeeper.connect: 'zk:1/a', group.id: g, name: a}\n"
        "- {<<: *one, zookeeper.connect: 'zk:1/b', name: b}\n"
    )
    configuration = from_yaml(yaml_file(tmp_path, text + TARGET + MIRROR))
    assert [(source.name, source.group_id) for source in configuration.sources] == [("a", "g"), ("b", "g")]


def test_names_that_yaml_takes_for_numbers_want_quotes(tmp_path: Path) -> None:
    text = "sources:\n- {zookeeper.connect: 'zk:1/a', group.id: 5, version: 0.10}\n" + TARGET + MIRROR
    assert problems(tmp_path, text) == [
        "m.yaml: sources[0]: option 'group.id' is 5, expected text, and without quotes this is a number: "
        "put it in quotes",
        "m.yaml: sources[0]: option 'version' is 0.1, expected text, and without quotes this is a number "
        "(0.10 is 0.1): put it in quotes",
    ]


def test_keys_of_the_newer_clients_name_the_older_ones_in_yaml(tmp_path: Path) -> None:
    source = "sources:\n- {zookeeper.connect: 'zk:1/a', group.id: g, max.poll.records: 5}\n"
    target = "target: {bootstrap.servers: 'k:9092', acks: all, batch.size: 16384, key.serializer: x}\n"
    said = "\n".join(problems(tmp_path, source + target + MIRROR))
    for key, ours in {
        "bootstrap.servers": "metadata.broker.list",
        "acks": "request.required.acks",
        "batch.size": "batch.bytes",
        "key.serializer": "key.serializer.class",
    }.items():
        assert f"m.yaml: target: option '{key}' is one of the JVM's newer client; here: {ours}" in said
    assert (
        "m.yaml: sources[0]: option 'max.poll.records' is one of the JVM's newer client; here: queued.max.bytes" in said
    )


CONSUMER = "zookeeper.connect=zk:1/a\ngroup.id=g\n"
FOREIGN = """\
metadata.broker.list=k:9092
bootstrap.servers=k:9092
callback.handler=com.acme.Z
producer.type=sync
"""


def test_of_both_producers_keys_those_of_the_one_that_ran_count(tmp_path: Path) -> None:
    both = f"{FOREIGN}request.required.acks=1\nacks=all\n"
    configuration = properties(tmp_path, CONSUMER, both)
    assert configuration.target.acks == 1
    assert configuration.warnings == (
        "p.properties: ignored: acks ('request.required.acks' counts); bootstrap.servers ('metadata.broker.list' "
        "counts); callback.handler (message.handler of the mirror is the place for a program's own code); "
        "producer.type (sending is always asynchronous, and nothing is committed before it is acknowledged)",
    )
    files = [tmp_path / "c.properties"], tmp_path / "p.properties"
    assert from_flags(*files, {"whitelist": "a"}, new_producer=True).target.acks == -1
    with pytest.raises(
        OptionError, match=r"'metadata\.broker\.list' \(k:9092\) and 'bootstrap\.servers' \(o:9092\) have no"
    ):
        properties(tmp_path, CONSUMER, both.replace("bootstrap.servers=k", "bootstrap.servers=o"))


def test_a_batch_of_0_7_is_counted_in_messages_and_one_of_the_newer_producer_in_bytes(tmp_path: Path) -> None:
    old = properties(tmp_path, CONSUMER, "metadata.broker.list=k:9092\nqueue.time=5\nbatch.size=300\n").target
    assert (old.batch_messages, old.batch_bytes) == (300, 1 << 20)
    new = properties(tmp_path, CONSUMER, "bootstrap.servers=k:9092\nbatch.size=16384\n").target
    assert (new.batch_messages, new.batch_bytes) == (200, 16384)


def test_an_option_of_ours_counts_beside_the_jvms_key_for_it(tmp_path: Path) -> None:
    given = "max.request.size=9000000\ntarget.message.max.bytes=2000000\ntimeout.ms=5\nrequest.timeout.ms=7000\n"
    configuration = properties(tmp_path, CONSUMER, f"bootstrap.servers=k:9092\n{given}")
    target = configuration.target
    assert (target.message_max_bytes, target.request_timeout_ms) == (2000000, 7000)
    assert configuration.warnings == (
        "p.properties: ignored: max.request.size ('target.message.max.bytes' counts); timeout.ms ('request.timeout.ms' "
        "counts)",
    )


def test_new_consumer_says_what_keeps_the_group(tmp_path: Path) -> None:
    properties(tmp_path, CONSUMER, "bootstrap.servers=k:9092\n")
    files = [tmp_path / "c.properties"], tmp_path / "p.properties"
    with pytest.raises(OptionError) as wrong:
        from_flags(*files, {"whitelist": "a"}, new_consumer=True)
    assert wrong.value.problems == [
        "c.properties: --new.consumer reads through brokers, and 'bootstrap.servers' is not given: add it, or leave "
        "the flag out where the group is in ZooKeeper"
    ]
    files[0][0].write_text("bootstrap.servers=o:9092\nzookeeper.connect=zk:1\ngroup.id=g\n")
    (source,) = from_flags(*files, {"whitelist": "a"}, new_consumer=True).sources
    assert (source.coordination, source.brokers) == ("kafka", (("o", 9092),))


JAAS = "org.apache.kafka.common.security."
LOGS_IN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("interceptor.classes=com.acme.Mask\n", "option 'interceptor.classes' (com.acme.Mask) names classes that see"),
        ("transactional.id=t\n", "option 'transactional.id' makes transactions"),
        ("partitioner.class=com.acme.P\n", "partitioner.class 'com.acme.P' is a JVM class that is not known here"),
        ("compression.type=brotli\n", "option 'compression.type' is 'brotli', expected one of none, gzip"),
        (
            f"{LOGS_IN}sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;\n",
            "Kerberos",
        ),
        (
            f"{LOGS_IN}sasl.jaas.config={JAAS}oauthbearer.OAuthBearerLoginModule required;\n",
            "sasl.oauthbearer.callback",
        ),
        (f"{LOGS_IN}sasl.jaas.config=nonsense\n", "option 'sasl.jaas.config' is not understood"),
        ("security.protocol=SSL\nssl.keystore.location=/k.jks\n", "option 'ssl.keystore.location' (/k.jks) is a store"),
    ],
)
def test_what_would_change_what_arrives_is_refused_with_what_helps(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(OptionError) as wrong:
        properties(tmp_path, CONSUMER, f"bootstrap.servers=k:9092\n{lines}")
    assert said in "\n".join(wrong.value.problems)


def test_what_a_protocol_has_no_use_for_is_ignored_as_the_jvm_does(tmp_path: Path) -> None:
    more = "ssl.truststore.location=/t.jks\nssl.truststore.password=hidden\nsasl.kerberos.service.name=kafka\n"
    configuration = properties(tmp_path, CONSUMER + more, "bootstrap.servers=k:9092\n")
    assert configuration.warnings == (
        "c.properties: ignored: ssl.truststore.location, ssl.truststore.password (security.protocol PLAINTEXT has no "
        "TLS); sasl.kerberos.service.name (security.protocol PLAINTEXT has no login)",
    )


def test_a_login_of_jaas_is_read_with_its_quotes(tmp_path: Path) -> None:
    text = f'{JAAS}scram.ScramLoginModule required \\\n  username="me" password="a;b \\\\"c";\n'
    configuration = properties(tmp_path, f"{CONSUMER}{LOGS_IN}sasl.jaas.config={text}", "bootstrap.servers=k:9092\n")
    (source,) = configuration.sources
    assert (source.sasl_username, source.sasl_password) == ("me", Secret('a;b "c'))


def test_a_larger_fetch_than_the_budget_raises_the_budget_that_a_file_does_not_give(tmp_path: Path) -> None:
    large = f"{CONSUMER}fetch.message.max.bytes=100000000\n"
    assert properties(tmp_path, large, "bootstrap.servers=k:9092\n").sources[0].queued_max_bytes == 100000000
    with pytest.raises(OptionError, match=r"'queued\.max\.bytes' \(70000000\) must hold the largest fetch"):
        properties(tmp_path, f"{large}queued.max.bytes=70000000\n", "bootstrap.servers=k:9092\n")


def test_unknown_keys_stop_a_mirror_unless_they_are_to_be_warnings(tmp_path: Path) -> None:
    target = "metadata.broker.list=k:9092\nacme.team=blue\n"
    with pytest.raises(OptionError, match=r"p\.properties: option 'acme\.team' is unknown"):
        properties(tmp_path, CONSUMER, target)
    configuration = properties(tmp_path, CONSUMER, target, unknown="warn")
    assert "p.properties: option 'acme.team' is unknown and ignored" in configuration.warnings
    text = SOURCE + TARGET + "mirror: {whitelist: a, num.steams: 2}\n"
    assert from_yaml(yaml_file(tmp_path, text), "warn").warnings == (
        "m.yaml: mirror: option 'num.steams' is unknown and ignored; did you mean 'num.streams'?",
    )


def test_other_words_for_a_release_and_for_where_to_begin_are_taken_or_named(tmp_path: Path) -> None:
    source = "sources:\n- {zookeeper.connect: 'zk1:2181/src', group.id: g, %s}\n"
    target = TARGET.replace("}", ", kafka.version: 0.9}")
    configuration = from_yaml(yaml_file(tmp_path, source % "kafka.version: 0.8.1" + target + MIRROR))
    assert (configuration.sources[0].version, configuration.target.version) == ("0.8.1", "0.9")
    given = "version: 0.8, auto.offset.reset: earliest"
    target = TARGET.replace("}", ", request.required.acks: all}")
    assert problems(tmp_path, source % given + target + MIRROR) == [
        "m.yaml: sources[0]: option 'version' is 0.8, expected a Kafka release: '0.8' is several releases: "
        "0.8.0, 0.8.1, 0.8.2; give the oldest of the brokers",
        "m.yaml: sources[0]: option 'auto.offset.reset' is 'earliest', expected one of smallest, largest, fail; "
        "the newer client's 'earliest' is smallest here",
        "m.yaml: target: option 'request.required.acks' is 'all', expected a whole number; "
        "the newer client's 'all' is -1 here",
    ]


def test_a_drain_that_a_stop_cannot_wait_for_is_named(tmp_path: Path) -> None:
    text = "sources:\n- {zookeeper.connect: 'zk:1/a', group.id: g, rebalance.drain.ms: 20000}\n" + TARGET + MIRROR
    assert from_yaml(yaml_file(tmp_path, text)).notes == (
        "m.yaml: source source: rebalance.drain.ms=20000: a stop still ends within 10 s, and if draining takes "
        "all of it, nothing more is committed; use at most 7000",
    )


def test_flags_are_options_of_the_mirror(tmp_path: Path) -> None:
    flags = {"num.streams": "3", "offset.commit.interval.ms": "1000"}
    configuration = properties(
        tmp_path, "zookeeper.connect=zk:1/a\ngroup.id=g\n", "metadata.broker.list=k:9092\n", **flags
    )
    assert (configuration.mirror.num_streams, configuration.sources[0].auto_commit_interval_ms) == (3, 1000)
    with pytest.raises(OptionError, match=r"command line: option 'num\.streams' is 'many', expected a whole number"):
        properties(
            tmp_path,
            "zookeeper.connect=zk:1/a\ngroup.id=g\n",
            "metadata.broker.list=k:9092\n",
            **{"num.streams": "many"},
        )


def test_files_that_the_flags_do_not_name_are_asked_for() -> None:
    with pytest.raises(OptionError) as wrong:
        from_flags([], None, {"whitelist": "a"})
    assert wrong.value.problems == [
        "--consumer.config is missing: a source's .properties, one for each source",
        "--producer.config is missing: the target's .properties",
    ]


@pytest.mark.parametrize(
    ("source", "target", "same"),
    [
        ("zk1:2181/kafka", "zk1:2181/kafka", True),
        ("zk1,zk2:2181/kafka", "ZK2/kafka/", True),
        ("zk1:2181", "zk1:2181/", True),
        ("zk1:2181/a", "zk1:2181/b", False),
        ("zk1:2181/a", "zk1:2182/a", False),
        ("zk1:2181/a", "", False),
        ("zk1:2181", "", False),
    ],
)
def test_source_and_target_are_one_cluster_when_path_and_a_server_are_the_same(
    source: str, target: str, same: bool
) -> None:
    assert loops(source, target) is same
