"""Real HDFS for tests: one name node and one data node of Hadoop 3.4.2 in a child process on 127.0.0.1.

    with Hdfs() as hdfs:
        spark.range(9).write.parquet(f"{hdfs.uri}/nine")

Only the child loads its jars: a Spark session has its own Hadoop client, and connects to it.
"""

from __future__ import annotations

import os
from types import TracebackType

from localkafka import jars, java, ports
from localkafka.child import Child
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until
from localkafka.workfolder import WorkFolder

JARS = "hadoop-3.4.2"
JAVA = 11  # the first release of Java that Hadoop 3.4 supports and whose compiler is a module (java.compiled)
READY = "HDFS IS READY"
MAIN = """\
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class Hdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.set("hdfs.minidfs.basedir", arguments[0]);
        conf.set("dfs.replication", "1");
        conf.set("dfs.namenode.decommission.interval", "1");
        new MiniDFSCluster.Builder(conf).nameNodePort(Integer.parseInt(arguments[1])).numDataNodes(1).build()
            .waitActive();
        System.out.println("READY");
        Thread.currentThread().join();
    }
}
""".replace("READY", READY)
FLAGS = (*java.SMALL, "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-Djava.net.preferIPv4Stack=true")


class Hdfs:
    """An HDFS in its own work folder; close() removes its data.  It ends with the process that started it.

    port   port of the name node; 0: any free port
    """

    def __init__(self, port: int = 0) -> None:
        self._port = ports.reserve(port)
        self._work = WorkFolder()
        self._child: Child | None = None

    def __repr__(self) -> str:
        return f"<Hdfs {self.uri}, {self._child or 'not started'}>"

    @property
    def uri(self) -> str:
        """Return hdfs://127.0.0.1:PORT, without a trailing slash."""
        return f"hdfs://{ports.HOST}:{self._port.number}"

    @property
    def pid(self) -> int:
        if self._child is None:
            raise LocalKafkaError(f"{self.uri} was not started")
        return self._child.pid

    def start(self, timeout_s: float = 60) -> Hdfs:
        """Start it and wait until it serves; the first start fetches its jars.
        Raises LocalKafkaError with the end of its log when it does not serve."""
        program = java.executable()
        if java.feature_version(program) < JAVA:
            raise LocalKafkaError(f"{program} is older than Java {JAVA}, which HDFS needs; set JAVA_HOME")
        class_path = f"{jars.fetched(JARS, 'Hadoop 3.4.2')}/*"
        source, log = self._work.path / "Hdfs.java", self._work.path / "log"
        source.write_text(MAIN, encoding="utf-8")
        classes = os.pathsep.join([class_path, str(java.compiled(source, class_path))])
        arguments = [source.stem, str(self._work.path / "dfs"), str(self._port.number)]
        child = self._child = Child(f"HDFS on {self.uri}", [program, *FLAGS, "-cp", classes, *arguments], log)

        def serving() -> bool:
            if not child.running:
                raise LocalKafkaError(f"{child.name} ended at start with {child.exit_code}; {child.log_end()}")
            return READY in log.read_text(encoding="utf-8", errors="replace")

        wait_until(serving, timeout_s, lambda: f"{child.name} to serve; {child.log_end()}")
        return self

    def close(self) -> None:
        """End it and remove its data; it cannot be started again."""
        if self._child is not None:
            self._child.close()
        self._work.close()
        self._port.release()

    def __enter__(self) -> Hdfs:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
