"""What docs/offsets-in-a-database.md shows runs: nothing is counted twice, whatever fails, and nothing is missing."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from localkafka.load import Load, Mixture
from tests.fakes.broker import FakeCluster, entry
from zkconsumer.errors import ConsumerTimeout

PAGE = (Path(__file__).parent.parent / "docs" / "offsets-in-a-database.md").read_text(encoding="utf-8")
TABLE, FIXED, GROUP = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(block: str, database: Path, **replaced: str) -> None:
    for old, new in {"words.db": str(database), **replaced}.items():
        assert old in block
        block = block.replace(old, new)
    exec(block, {})


def counted(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT word, seen FROM words"))


def committed(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT sum(next_position) FROM consumer_offsets").fetchone()[0])


def refuse(database: Path, word: str | None) -> None:
    """From now on the database does not take this word."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS refuse")
        if word is not None:
            refusing = f"BEGIN SELECT RAISE(ABORT, 'not this word') WHERE new.word = '{word}'; END"
            connection.execute(f"CREATE TRIGGER refuse BEFORE INSERT ON words {refusing}")
        connection.commit()


def test_fixed_partitions(tmp_path: Path):
    database = tmp_path / "app.db"
    run(TABLE, database)
    with FakeCluster({"words": 1}) as cluster:
        where = {'"broker1", 9092': f'"127.0.0.1", {cluster.bootstrap[0][1]}'}
        cluster.append("words", 0, entry(b"one") + entry(b"two") + entry(b"one"))
        refuse(database, "two")
        with pytest.raises(sqlite3.IntegrityError, match="not this word"):
            run(FIXED, database, **where)
        assert counted(database) == {}  # "one" was rolled back with its position
        refuse(database, None)
        run(FIXED, database, **where)
        cluster.append("words", 0, entry(b"two"))
        run(FIXED, database, **where)
        assert counted(database) == {"one": 2, "two": 2}
        assert committed(database) == 4


@pytest.mark.real
def test_in_a_group(source, unique, tmp_path: Path):
    database = tmp_path / "app.db"
    run(TABLE, database)
    topic, group = unique.topic("words"), unique.group()
    source.create_topic(topic, 2)
    where = {
        '"words"': f'"{topic}"',
        "zk1:2181": source.zookeeper,
        '"counting"': f'"{group}"',
        '"auto.offset.reset": "smallest"': '"auto.offset.reset": "smallest", "consumer.timeout.ms": 1500',
    }
    for produced in (20, 40):
        load = Load(source.brokers, source.version)
        load.produce(topic, 2, 20, Mixture(0.5, (0, 1)), batch=5)
        load.close()
        with pytest.raises(ConsumerTimeout):
            run(GROUP, database, **where)
        assert sum(counted(database).values()) == produced
        assert committed(database) == produced
        source.zk().delete(f"/consumers/{group}/offsets", recursive=True)  # only what the database says counts
