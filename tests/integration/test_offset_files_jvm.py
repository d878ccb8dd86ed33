"""Offsets files against the JVM's own tools: what they print is read, and what we write is what they print or take."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from groupadmin.files.model import OffsetsFile, SavedRow
from groupadmin.files.read import read_offsets
from groupadmin.files.write import write_offsets
from kafkawire.model import BrokerPartition
from localkafka import java, releases, tools
from localkafka.client import ClusterClient
from localkafka.zookeeper import ZooKeeperAt

pytestmark = pytest.mark.real
ROWS = (
    SavedRow("billing", "orders", 0, 1200),
    SavedRow("billing", "orders", 11, 0),
    SavedRow("billing", "a-topic-whose-name-is-longer-than-24", 3, (1 << 53) + 1),
    SavedRow("a group of blanks", "clicks.of_2015-06", 0, 87),
    SavedRow("of-07", "clicks", BrokerPartition(3, 0), 81920),
)
NAMES = [
    *(
        "g",
        "a b",
        "a-b",
        "a/b",
        "a_b",
        "a.b",
        "a+b",
        "#x",
        "-x",
        "x,y",
        'q"q',
        "l\nm",
        "c\r\nd",
        "a\\b",
        "a'b",
        "\t",
        "~|^",
    ),
    *("1" * 24, "1" * 25, "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{SNAKE}" * 12, "\N{SNAKE}" * 13),
]
PRINTS_CSV = """
import java.util.Base64;

public class PrintsCsv {
    static String text(String word) throws Exception { return new String(Base64.getDecoder().decode(word), "UTF-8"); }

    public static void main(String[] lines) throws Exception {
        String in = "org.apache.kafka.tools.consumer.group.CsvUtils";
        Class<?> row = Class.forName(in + "$CsvRecordWithGroup");
        var writerFor = Class.forName(in).getDeclaredMethod("writerFor", Class.class);
        writerFor.setAccessible(true);
        var writer = (com.fasterxml.jackson.databind.ObjectWriter) writerFor.invoke(null, row);
        var make = row.getConstructor(String.class, String.class, int.class, long.class);
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line : lines) {
            String[] words = line.split(" ");
            int partition = Integer.parseInt(words[2]);
            Object made = make.newInstance(text(words[0]), text(words[1]), partition, Long.parseLong(words[3]));
            out.print(writer.writeValueAsString(made));
        }
        out.println();
    }
}
"""


@pytest.fixture
def tool_box(zk_server: ZooKeeperAt, unique, tmp_path: Path) -> Iterator[ClusterClient]:
    """A ZooKeeper below a chroot of its own, for tools that need no broker."""
    root = KazooClient(hosts=zk_server.connect, timeout=10)
    root.start(timeout=10)
    root.ensure_path(unique.chroot)
    there = ClusterClient(releases.DEFAULT, zk_server.connect + unique.chroot, "", tmp_path)
    yield there
    there.close()
    root.delete(unique.chroot, recursive=True)
    root.stop()
    root.close()


def held(zk: KazooClient) -> dict[tuple[str, str, str], bytes]:
    """Every offset node: (group, topic, partition) and its data."""
    return {
        (group, topic, partition): zk.get(f"/consumers/{group}/offsets/{topic}/{partition}")[0]
        for group in zk.get_children("/consumers")
        for topic in zk.get_children(f"/consumers/{group}/offsets")
        for partition in zk.get_children(f"/consumers/{group}/offsets/{topic}")
    }


def test_exports_and_imports_of_the_jvm_and_ours_are_the_same_files(tool_box: ClusterClient, tmp_path: Path):
    expected = {(row.group, row.topic, str(row.partition)): b"%d" % (row.position or 0) for row in ROWS}
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    zk = tool_box.zk()

    ours.write_text(write_offsets(OffsetsFile("json", ROWS), "zk-export"), encoding="utf-8")
    zk.ensure_path("/consumers")
    tools.run(tool_box, "kafka.tools.ImportZkOffsets", ["--zkconnect", tool_box.zookeeper, "--input-file", str(ours)])
    assert held(zk) == expected  # the JVM took ours over, 0.7's partition and all

    tools.run(
        tool_box, "kafka.tools.ExportZkOffsets", ["--zkconnect", tool_box.zookeeper, "--output-file", str(theirs)]
    )
    read = read_offsets(theirs.read_text(encoding="utf-8"))
    assert (read.kind, read.warnings) == ("zk-export", ())
    assert sorted(read.rows, key=str) == sorted(ROWS, key=str)
    assert write_offsets(read, "zk-export").encode() == theirs.read_bytes()


def test_csv_is_byte_for_byte_what_the_classes_of_kafka_consumer_groups_print(tmp_path: Path):
    rows = [SavedRow(group, topic, 3, 1 << 40) for group in NAMES for topic in ("t", "t" * 24, "t" * 25)]
    program = tmp_path / "PrintsCsv.java"
    program.write_text(PRINTS_CSV, encoding="utf-8")
    words = [f"{word(row.group or '')} {word(row.topic)} {row.partition} {row.position}" for row in rows]
    command = java.command(releases.release("3.9.1"), str(program), words)
    printed = subprocess.run(command, capture_output=True, timeout=60)
    assert printed.returncode == 0, printed.stderr.decode(errors="replace")
    assert write_offsets(OffsetsFile("json", rows), "csv").encode() == printed.stdout
    assert read_offsets(printed.stdout.decode()).rows == tuple(rows)


def word(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
