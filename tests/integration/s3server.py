"""A stand-in for S3: moto's, one request at a time, so that the condition of a conditional write is kept.

    with S3() as s3:
        files = open_files(f"{s3.bucket}/base", spark)      # spark started with s3.conf()

`python -m tests.integration.s3server PORT [--ignore-conditions]` is the child process that serves it.  What it keeps is
in memory and goes with it.  Credentials are any.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any

from localkafka import jars, ports
from localkafka.waiting import wait_until

JARS = "hadoop-aws-3.5.0"  # of the Hadoop client that the installed Spark has


class S3:
    """A running stand-in with one empty bucket.  ignoring: it takes conditional writes whatever they say, as some
    stores do."""

    def __init__(self, bucket: str = "warehouse", ignoring: bool = False) -> None:
        self._bucket = bucket
        self._port = ports.reserve(0)
        self._ignoring = ["--ignore-conditions"] if ignoring else []
        self._child: subprocess.Popen[Any] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{ports.HOST}:{self._port.number}"

    @property
    def bucket(self) -> str:
        return f"s3a://{self._bucket}"

    def conf(self) -> dict[str, str]:
        """What a Spark session is started with to reach it."""
        return {
            "spark.driver.extraClassPath": f"{jars.fetched(JARS, 'the Hadoop client of S3')}/*",
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "any",
            "spark.hadoop.fs.s3a.secret.key": "any",
            "spark.hadoop.fs.s3a.aws.credentials.provider": ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"),
        }

    def __enter__(self) -> S3:
        argv = [sys.executable, "-m", "tests.integration.s3server", str(self._port.number), *self._ignoring]
        self._child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._made, 120, lambda: f"the stand-in for S3 at {self.endpoint} to take a bucket")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child is not None
        self._child.kill()
        self._child.wait(10)
        self._port.release()

    def _made(self) -> bool:
        request = urllib.request.Request(f"{self.endpoint}/{self._bucket}", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=30):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


def serve(port: int, ignoring: bool) -> None:
    """Serve until killed."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    app = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start: Any) -> Any:
        if ignoring:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with lock:  # moto looks whether there is an object, and then makes it
            return list(app(environ, start))

    run_simple(ports.HOST, port, one_at_a_time, threaded=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), "--ignore-conditions" in sys.argv)
