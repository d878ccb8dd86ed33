"""A real HDFS for tests: one name node and one data node of Hadoop 3.4.2 in a child process, on 127.0.0.1.

    with Hdfs() as hdfs:
        spark.range(9).write.parquet(f"{hdfs.uri}/nine")

Its jars stay in the child: a Spark session has a Hadoop client of its own, and talks to it over the wire.
"""

from __future__ import annotations

from types import TracebackType

from localkafka import jars, java, ports
from localkafka.child import Child
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until
from localkafka.workfolder import WorkFolder

JARS = "hadoop-3.4.2"
JAVA = 11  # what runs a source file as it is
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
    """One HDFS in a folder of its own; its data is gone when it is closed.  It ends with the process that started it.

    port   of the name node; 0: any free one
    """

    def __init__(self, port: int = 0) -> None:
        self._port = ports.reserve(port)
        self._work = WorkFolder()
        self._child: Child | None = None

    def __repr__(self) -> str:
        return f"<Hdfs {self.uri}, {self._child or 'not started'}>"

    @property
    def uri(self) -> str:
        """hdfs://127.0.0.1:PORT, without a slash at its end."""
        return f"hdfs://{ports.HOST}:{self._port.number}"

    @property
    def pid(self) -> int:
        if self._child is None:
            raise LocalKafkaError(f"{self.uri} was not started")
        return self._child.pid

    def start(self, timeout_s: float = 60) -> Hdfs:
        """Start it and wait until it serves; its jars are fetched the first time.
        Raises LocalKafkaError with the end of its log when it does not."""
        program = java.executable()
        if java.feature_version(program) < JAVA:
            raise LocalKafkaError(f"{program} is older than Java {JAVA}, which HDFS is started with; set JAVA_HOME")
        class_path = f"{jars.fetched(JARS, 'Hadoop 3.4.2')}/*"
        source, log = self._work.path / "Hdfs.java", self._work.path / "log"
        source.write_text(MAIN, encoding="utf-8")
        arguments = [str(source), str(self._work.path / "dfs"), str(self._port.number)]
        child = self._child = Child(f"HDFS on {self.uri}", [program, *FLAGS, "-cp", class_path, *arguments], log)

        def serving() -> bool:
            if not child.running:
                raise LocalKafkaError(f"{child.name} ended at start with {child.exit_code}; {child.log_end()}")
            return READY in log.read_text(encoding="utf-8", errors="replace")

        wait_until(serving, timeout_s, lambda: f"{child.name} to serve; {child.log_end()}")
        return self

    def close(self) -> None:
        """End it, and remove all it holds; it cannot be started again."""
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
