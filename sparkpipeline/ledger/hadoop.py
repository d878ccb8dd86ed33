"""Files of the Hadoop client inside a running Spark session: for hdfs:// and s3a://.

How a file is made exclusively and whole, which no file system here offers in one call for content and name:

    rename        hdfs, viewfs, webhdfs: written under a hidden name, then renamed; the name node refuses a taken target
    conditional   s3a: the object appears when it is closed, and only where there is none (If-None-Match).  Hadoop 3.4.2
                  or newer.  A store may silently ignore the condition, so the first file that a process makes is
                  preceded by a probe that is made twice: the second time has to be refused

On s3a a rename is a copy and a delete, and of two sources at once the later copy stays.  A ledger can live with that: a
final name belongs to one batch, so every driver that renames to it brings the same bytes, and a crash between copy and
delete leaves a staged file that the next run finds published and deletes.  One thing is left: a driver that sleeps in
the middle of a copy for as long as another takes to publish the batch and to supersede the file brings the file back.
`load verify` names it (orphan); the job's lock in ZooKeeper keeps two drivers apart in all but such a sleep.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from groundwork.failpoints import failpoint
from sparkpipeline.errors import Missing, OptionRefused, StorageFailed
from sparkpipeline.ledger.files import FileInfo
from sparkpipeline.ledger.local import TEMPORARY

MODES = {
    "hdfs": "rename",
    "viewfs": "rename",
    "webhdfs": "rename",
    "swebhdfs": "rename",
    "s3a": "conditional",
}
CONDITIONAL = "fs.option.create.conditional.overwrite"  # Options.CreateFileOptionKeys
NOT_THERE = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
TAKEN = ("java.nio.file.FileAlreadyExistsException", "org.apache.hadoop.fs.FileAlreadyExistsException")
CHANGED = "org.apache.hadoop.fs.s3a.RemoteFileChangedException"  # S3 answered 412: there is an object
DENIED = ("AccessControlException", "AccessDeniedException")


class HadoopFiles:
    """Files through Hadoop. spark: a running session (not Spark Connect, which has no JVM here); base: a URI of the
    file system meant.

    Raises OptionRefused for a scheme that is not in MODES, and StorageFailed.
    """

    def __init__(self, spark: Any, base: str) -> None:
        scheme = base.partition(":")[0]
        if scheme not in MODES:
            raise OptionRefused(f"{scheme}: is not one of {', '.join(sorted(MODES))}", base=base)
        self._mode = MODES[scheme]
        context = hadoop_context(spark)
        self._jvm = context._jvm
        self._made: set[str] = set()  # folders known to exist
        self._probed = False  # the store is known to keep the condition of _conditional
        with _storage_errors(base, "open"):
            self._fs = self._path(base).getFileSystem(context._jsc.hadoopConfiguration())

    def exists(self, path: str) -> bool:
        with _storage_errors(path, "look for"):
            return bool(self._fs.exists(self._path(path)))

    def list(self, path: str) -> list[FileInfo]:
        with _storage_errors(path, "list"):
            try:
                entries = list(self._fs.listStatus(self._path(path)))
            except Exception as exc:
                if _class(exc) in NOT_THERE:
                    return []
                raise
            found = [_info(path, entry) for entry in entries]
            if len(found) == 1 and not found[0].is_folder and self._fs.getFileStatus(self._path(path)).isFile():
                return [FileInfo(path, found[0].name, found[0].size, False, found[0].modified_ms)]
            return sorted(found)

    def create(self, path: str, data: bytes) -> bool:
        with _storage_errors(path, "create"):
            if self._fs.exists(self._path(path)):
                return False
            return self._conditional(path, data) if self._mode == "conditional" else self._drafted(path, data)

    def read(self, path: str) -> bytes:
        with _storage_errors(path, "read"):
            try:
                stream = self._fs.open(self._path(path))
            except Exception as exc:
                if _class(exc) in NOT_THERE:
                    raise Missing("file does not exist", file=path) from None
                raise
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def rename(self, source: str, target: str) -> bool:
        with _storage_errors(source, f"rename to {target}"):
            if not self._fs.exists(self._path(source)):
                return False
            self._folder(target.rpartition("/")[0])
            if self._moved(source, target):
                return True
            if not self._fs.exists(self._path(source)) or self._fs.exists(self._path(target)):
                return False  # another driver was quicker
            self._made.clear()  # a folder was deleted by another process
            self._folder(target.rpartition("/")[0])
            if self._moved(source, target):
                return True
            raise StorageFailed(f"the file system does not rename it to {target}, and does not say why", file=source)

    def delete(self, path: str, recursive: bool = False) -> bool:
        with _storage_errors(path, "delete"):
            return bool(self._fs.delete(self._path(path), recursive))

    def sync(self, path: str) -> None:
        """Do nothing: a closed file has its replicas, and a closed object is stored."""

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _folder(self, path: str) -> None:
        if path not in self._made:
            self._fs.mkdirs(self._path(path))
            self._made.add(path)

    def _drafted(self, path: str, data: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/.{name}.{uuid.uuid4().hex}{TEMPORARY}"
        stream = self._fs.create(self._path(draft), False)
        try:
            try:
                stream.write(bytearray(data))
                stream.hsync()
            finally:
                stream.close()
            failpoint("files before link")
            if self._moved(draft, path):
                return True
            if self._fs.exists(self._path(path)):
                return False
            raise StorageFailed(f"the file system does not rename {draft} to it, and does not say why", file=path)
        finally:
            self._fs.delete(self._path(draft), False)

    def _moved(self, source: str, target: str) -> bool:
        try:
            return bool(self._fs.rename(self._path(source), self._path(target)))
        except Exception as exc:
            if _class(exc) in (*NOT_THERE, *TAKEN):
                return False
            raise

    def _conditional(self, path: str, data: bytes) -> bool:
        at = self._path(path)
        if not self._fs.hasPathCapability(at, CONDITIONAL):
            raise OptionRefused(
                "this Hadoop client creates no object on the condition that there is none; "
                "it needs hadoop-aws 3.4.2 or newer, and fs.s3a.create.conditional.enabled",
                file=path,
            )
        if not self._probed:
            self._probe(path)
            self._probed = True
        return self._put(path, data)

    def _put(self, path: str, data: bytes) -> bool:
        """Create an object on the condition that there is none; return False if there is one."""
        stream = self._opened(path)
        stream.write(bytearray(data))
        return self._closed(path, stream)

    def _opened(self, path: str) -> Any:
        return self._fs.createFile(self._path(path)).must(CONDITIONAL, True).build()

    def _closed(self, path: str, stream: Any) -> bool:
        """Close the stream and return whether the object was created: the store checks the condition now."""
        try:
            stream.close()
        except Exception as exc:
            if _class(exc) in (CHANGED, *TAKEN) and self._fs.exists(self._path(path)):
                return False
            raise
        return True

    def _probe(self, path: str) -> None:
        """Raise OptionRefused if the store accepts the same object twice in spite of the condition."""
        folder, _, name = path.rpartition("/")
        probe = f"{folder}/.{name}.{uuid.uuid4().hex}{TEMPORARY}"
        try:
            # Both are opened first: at the second opening the client itself would find the object of the first.
            streams = [self._opened(probe), self._opened(probe)]
            if [self._closed(probe, stream) for stream in streams] != [True, False]:
                raise OptionRefused(
                    "the store ignores If-None-Match: of two drivers at once both would commit; it needs S3, or a store"
                    " that keeps conditional writes",
                    file=path,
                )
        finally:
            self._fs.delete(self._path(probe), False)


def hadoop_context(spark: Any) -> Any:
    """Return the Spark context, whose JVM has the Hadoop client.  Raises OptionRefused for a Spark Connect session."""
    try:
        return spark.sparkContext
    except AttributeError:  # pyspark's own subclass of it
        raise OptionRefused(
            "a Spark Connect session has no Hadoop client here; start the job by spark-submit"
        ) from None


def _info(folder: str, entry: Any) -> FileInfo:
    name = str(entry.getPath().getName())
    is_folder = bool(entry.isDirectory())
    size = 0 if is_folder else int(entry.getLen())
    return FileInfo(f"{folder}/{name}", name, size, is_folder, int(entry.getModificationTime()))


def _class(exc: BaseException) -> str:
    """Return the Java class of an exception of py4j; empty if it is not a Java exception."""
    raised = getattr(exc, "java_exception", None)
    return "" if raised is None else str(raised.getClass().getName())


@contextmanager
def _storage_errors(path: str, doing: str) -> Iterator[None]:
    """Convert Java's and py4j's errors to one sentence."""
    from py4j.protocol import Py4JError, Py4JJavaError  # here: only with Spark
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as exc:
        name = _class(exc).rpartition(".")[2]
        said = (str(exc.java_exception.getMessage()).splitlines() or [""])[0]
        why = "not permitted" if name in DENIED else name
        raise StorageFailed(f"cannot {doing} it: {why}: {said}", file=path) from exc
    except PySparkException as exc:  # what pyspark makes of some of Java's: a name that the file system does not take
        raise StorageFailed(f"cannot {doing} it: {(str(exc).splitlines() or [''])[0]}", file=path) from exc
    except (Py4JError, ConnectionError) as exc:
        raise StorageFailed(
            f"cannot {doing} it: the JVM of the Spark session does not answer: {exc}", file=path
        ) from exc
