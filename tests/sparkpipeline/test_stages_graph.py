"""The graph of a pipeline."""

from __future__ import annotations

import pytest

from sparkpipeline.stages.graph import LOAD, STAGE, Graph, Node, problems

ORDERS = Node("orders", LOAD)


def stage(name: str, *inputs: str, lookups: tuple[str, ...] = (), files: bool = True) -> Node:
    return Node(name, STAGE, inputs, lookups, files)


def test_a_node_comes_after_everything_it_reads_whatever_the_order_of_the_file() -> None:
    graph = Graph.of([stage("counts", "lines"), stage("lines", "orders"), ORDERS, stage("other", "orders")])
    assert [node.name for node in graph] == ["orders", "lines", "counts", "other"]
    assert graph.above("counts") == {"orders", "lines"}
    assert graph.below("orders") == {"lines", "counts", "other"}
    assert "lines" in graph
    assert "line" not in graph


def test_a_lookup_is_an_edge() -> None:
    graph = Graph.of([stage("a", "orders", lookups=("b",)), stage("b", "orders"), ORDERS])
    assert [node.name for node in graph] == ["orders", "b", "a"]
    assert graph.above("a") == {"orders", "b"}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            [ORDERS, stage("a", "order")],
            "stage 'a' reads 'order', which is neither a load nor a stage; did you mean 'orders'?",
        ),
        ([ORDERS, stage("a", "xyz")], "stage 'a' reads 'xyz', which is neither a load nor a stage; there are orders"),
        ([ORDERS, stage("a", "a")], "stage 'a' reads itself"),
        ([ORDERS, stage("a", "orders", "orders")], "stage 'a' names 'orders' twice among its inputs and lookups"),
        (
            [ORDERS, stage("a", "orders", lookups=("orders",))],
            "stage 'a' names 'orders' twice among its inputs and lookups",
        ),
        (
            [ORDERS, stage("a", lookups=("orders",))],
            "stage 'a' has no inputs: name at least one load or stage whose batches it takes",
        ),
        ([ORDERS, stage("Orders", "orders")], "the name 'Orders' is given twice: to a load ('orders') and to a stage"),
        (
            [ORDERS, stage("a-b", "orders")],
            "stage name 'a-b' is not a SQL name: use letters, digits and _, a letter or _ first",
        ),
        (
            [ORDERS, stage("t", "orders", files=False), stage("a", "t")],
            "stage 'a' reads 't', which writes to a topic: only Parquet output can be read again",
        ),
        (
            [ORDERS, stage("a", "orders", "c"), stage("b", "a"), stage("c", "b")],
            "the stages read each other in a circle: a <- c <- b <- a; one of these inputs has to go",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_in_one_sentence(nodes: list[Node], said: str) -> None:
    assert problems(nodes) == [said]


def test_a_diamond_is_no_circle() -> None:
    nodes = [ORDERS, stage("a", "orders"), stage("b", "orders"), stage("c", "a", "b")]
    assert problems(nodes) == []
    assert [node.name for node in Graph.of(nodes)] == ["orders", "a", "b", "c"]
