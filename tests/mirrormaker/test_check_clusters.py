"""`mirrormaker check --online` promises no more than the clusters hold: brokers that do not answer, topics that the
target refuses, transactions that would never begin, a release that the file pins below the brokers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.cluster.release import BrokerRelease
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from mirrormaker.commands.online import check_online
from mirrormaker.commands.onlinebrokers import AskedCluster
from mirrormaker.exactlyonce.requirements import lacking
from tests.fakes.checked import Cluster, configured

CLOSED = ("127.0.0.1", 1)
TRANSACTIONS = {"transaction.state.log.replication.factor": "1", "offsets.topic.replication.factor": "1"}


def checked(
    folder: Path, capsys: pytest.CaptureFixture[str], source: Cluster, target: Cluster, **of_mirror: Any
) -> tuple[int, str, list[str]]:
    """The exit code, the table, and the errors and warnings about brokers and topics."""
    code = check_online(configured(folder, source, target, None, of_mirror))
    shown = capsys.readouterr()
    said = [line for line in shown.err.splitlines() if line.startswith(("error: ", "warning: "))]
    return code, shown.out, said


# ---- brokers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "does"), [("source dc1", "read"), ("target", "write")])
def test_a_broker_that_leads_partitions_and_does_not_answer_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str, does: str
) -> None:
    with Cluster({"orders": 3}, brokers=2) as source, Cluster({"orders": 3}, brokers=2) as target:
        (target if side == "target" else source).at[2] = CLOSED  # the fake's broker 2 leads all
        code, rows, said = checked(tmp_path, capsys, source, target)
    assert (code, "orders" in rows) == (69, True)
    assert said == [
        f"error: {side}: broker 2 (127.0.0.1:1): connecting: Connection refused; it leads 3 of 3 partitions that the "
        f"mirror would {does}: these would wait"
    ]


def test_a_broker_that_leads_nothing_of_the_mirror_is_a_warning_unless_topics_are_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster({"orders": 1}) as source, Cluster({"orders": 1}, brokers=2) as target:
        target.at[1] = CLOSED
        target.controller = 2
        code, _, said = checked(tmp_path, capsys, source, target)
        away = "target: broker 1 (127.0.0.1:1): connecting: Connection refused; "
        assert (code, said[0]) == (0, f"warning: {away}it leads no partition that is mirrored now")
        source.topics["new"] = 1
        code, _, said = checked(tmp_path, capsys, source, target)
        wait = "partitions of topics that the mirror creates would wait where it leads them"
        assert (code, said[-1]) == (69, f"error: {away}{wait}")


def test_partitions_without_a_leader_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster({"orders": 3}) as source, Cluster({"orders": 3}) as target:
        source.leaderless = {0, 2}
        code, _, said = checked(tmp_path, capsys, source, target)
    wait = "source dc1: 2 of 3 partitions that the mirror would read have no leader now: these would wait"
    assert (code, said[-1]) == (69, f"error: {wait}")


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_what_the_controller_would_refuse_is_asked_and_nothing_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster({"fine": 1, "odd": 2}) as source, Cluster({}) as target:
        target.unmade["odd"] = 44
        code, rows, said = checked(tmp_path, capsys, source, target)
        assert target.count(1, "CreateTopics") == 1
    table = {row.split()[1]: row for row in rows.splitlines()[1:]}
    assert "missing, created with 1" in table["fine"]
    assert "missing, not created" in table["odd"]
    assert (code, said) == (
        78,
        [
            "error: source dc1: target topic odd is neither created nor grown: topic odd: PolicyViolation (44); the "
            "cluster's create.topic.policy refuses it"
        ],
    )


def test_names_that_brokers_take_for_one_are_not_both_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "l" * 250
    with Cluster({"a.b": 1, "a_b": 1, long: 1, "x_y": 1, "z.z": 1}) as source, Cluster({"x.y": 1, "z.z": 1}) as target:
        code, rows, said = checked(tmp_path, capsys, source, target, whitelist="a.b|x_y|z.z|l+")
    assert code == 78
    assert said[0].startswith(f"error: source dc1: topic {long} would be written to {long}, which has 250 characters")
    assert [line.partition(": give")[0] for line in said[1:]] == [
        f"error: source dc1: target topic {one} is neither created nor grown: brokers take it and {other} for one, "
        "because their metrics have '_' for '.'"
        for one, other in (("a_b", "a.b"), ("x_y", "x.y"))
    ]
    assert rows.count("missing, not created") == 2


# ---- transactions ----------------------------------------------------------------------------------------------------


def test_a_target_without_the_brokers_that_transactions_need_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exactly_once = {"delivery.guarantee": "exactly-once"}
    with Cluster({"orders": 1}) as source, Cluster({"orders": 1}) as target:
        target.broker |= TRANSACTIONS
        assert checked(tmp_path, capsys, source, target, **exactly_once)[0] == 0
        target.broker["transaction.state.log.replication.factor"] = "3"
        code, _, said = checked(tmp_path, capsys, source, target, **exactly_once)
        assert (code, said) == (
            78,
            [
                "error: target: delivery.guarantee: exactly-once: its brokers have yet to create __transaction_state, "
                "with transaction.state.log.replication.factor 3, and the cluster has 1 broker: lower it there, or add "
                "brokers"
            ],
        )


@pytest.mark.parametrize(
    ("code", "ends", "sentence"),
    [
        (53, 78, "TransactionalIdAuthorizationFailed (53); give this client the ACLs Write and Describe on that"),
        (15, 69, "CoordinatorNotAvailable (15)"),
    ],
)
def test_transactional_ids_that_the_target_refuses_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, ends: int, sentence: str
) -> None:
    exactly_once = {"delivery.guarantee": "exactly-once"}
    with Cluster({"orders": 1}) as source, Cluster({"orders": 1}) as target:
        target.refuses_ids = code
        target.broker |= TRANSACTIONS
        assert checked(tmp_path, capsys, source, target, **exactly_once)[0] == 0
        assert not target.count(1, "GroupCoordinator"), "asking would create __transaction_state"
        target.topics["__transaction_state"] = 1
        found, _, [said] = checked(tmp_path, capsys, source, target, **exactly_once)
    assert found == ends
    assert said.startswith(
        "error: source dc1: delivery.guarantee: exactly-once: coordinator of transactional id g-dc1-"
    )
    assert sentence in said


def test_what_settings_of_brokers_mean_for_transactions() -> None:
    one = {1: Broker(1, "k", 9092)}
    topics = {name: {0: PartitionView(1, (1,), (1,))} for name in ("__transaction_state", "__consumer_offsets")}
    assert not list(lacking({}, ClusterView(one), 60_000))  # nothing is told, so nothing is known
    threes = dict.fromkeys(TRANSACTIONS, "3")
    assert len(list(lacking(threes, ClusterView(one), 60_000))) == 2
    assert not list(lacking(threes, ClusterView(one, topics), 60_000))  # they are there, however they are set
    [least] = lacking({"transaction.state.log.min.isr": "2"}, ClusterView(one, topics), 60_000)
    assert least.startswith("its brokers write __transaction_state with at least 2 replicas in sync")
    [longest] = lacking({"transaction.max.timeout.ms": "900000"}, ClusterView(one, topics), 900_001)
    assert "transaction.timeout.ms is 900001, and its brokers refuse more than 900000" in longest


# ---- a pinned release ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "pinned", "brokers", "sentence"),
    [
        ("target", "0.8.2", ["3.9", "4.1"], "target.version is 0.8.2: messages are written in message format 0"),
        ("source dc1", "0.10.0", ["3.9"], "version is 0.10.0: brokers convert what they hold for each fetch"),
        ("target", "2.8", ["3.9"], ""),
        ("target", "0.8.2", ["3.9", "0.9"], ""),  # in the middle of a roll from what is pinned
        ("target", "0.8.2", [], ""),  # none answers
        ("target", "", ["3.9"], ""),
    ],
)
def test_a_release_far_below_the_brokers_own_is_a_warning(
    who: str, pinned: str, brokers: list[str], sentence: str
) -> None:
    found: dict[Broker, Any] = {
        Broker(n, "k", n): BrokerRelease(Broker(n, "k", n), it, {}) for n, it in enumerate(brokers)
    }
    found[Broker(9, "k", 9)] = LinkLost("away")
    option = "target.version" if who == "target" else "version"
    said = list(AskedCluster(who, option, pinned, dialect(pinned or "0.8.2"), found).pinned_below())
    assert len(said) == bool(sentence)
    assert sentence in "".join(said)
