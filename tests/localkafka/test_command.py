"""`python -m localkafka`: what it refuses, and how."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from localkafka.__main__ import main
from localkafka.demo import main as demo


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--version", "0.7.3"], "of 0.7 there are 0.7.0, 0.7.1, 0.7.2"),
        (["--original"], "is for 0.7 only"),
        (["--version", "4.3.1"], "Kafka 4.3.1 has no ZooKeeper mode"),
        (["--brokers", "0"], "0 is not in the range"),
        (["--brokers", "two"], "'two' is not a valid integer"),
        (["--setting", "x"], "'x' is not KEY=VALUE"),
        (["--ports", "1"], "No such option"),
        (["--port", "99999"], "99999 is not in the range"),
        (["--version", "0.7.2", "--zookeeper-port", "2181"], "--zookeeper-port: is not for brokers of 0.7"),
        (["--version", "0.7.2", "--advertise", "source"], "--advertise: is not for brokers of 0.7"),
    ],
)
def test_wrong_arguments_exit_2_with_a_sentence(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert sentence in result.output


@pytest.mark.parametrize("command", [main, demo], ids=["localkafka", "demo"])
def test_dash_h_is_help(command: click.Command) -> None:
    result = CliRunner().invoke(command, ["-h"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
