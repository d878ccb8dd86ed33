"""Base of a ledger: file system and normal form of its URI.

    /warehouse/orders, file:///warehouse/orders     LocalFiles, no Spark needed
    hdfs://host:8020/orders, s3a://bucket/orders    HadoopFiles: the Hadoop client of a running Spark session

A base is taken as it is written, like every path Spark takes: a space is a space, and %20 three characters.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from sparkpipeline.errors import OptionRefused
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.hadoop import HadoopFiles, hadoop_context
from sparkpipeline.ledger.local import LocalFiles, local_path

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_GLOB = re.compile(r"[*?\[\]{}\\]|[\x00-\x1f\x7f]")


def normal_base(base: str) -> str:
    """Return the base in normal form: with its scheme, without slashes at the end or double ones inside.

    A plain absolute path becomes file:///…, so that Spark does not take it for one of its default file system. Raises
    OptionRefused for relative paths, `..`, and characters that Spark would read as a pattern."""
    if _GLOB.search(base):
        raise OptionRefused(
            r"has one of * ? [ ] { } \ or a control character, which Spark reads as a pattern", base=base
        )
    found = _SCHEME.fullmatch(base)
    if found is None or found[1] == "file":
        return f"file://{_clean(str(local_path(base)), base)}"
    host, slash, path = found[2].removeprefix("//").partition("/")
    if not found[2].startswith("//"):
        raise OptionRefused(f"names no host or bucket: {found[1]}://HOST/PATH", base=base)
    return f"{found[1].lower()}://{host}{_clean(slash + path, base)}"


def needs_spark(base: str) -> bool:
    """True if open_files needs a session for this base."""
    return not normal_base(base).startswith("file:")


def open_files(base: str, spark: Any | None = None) -> Files:
    """Return the files of a base.  Raises OptionRefused: no session where one is needed, a scheme that is not
    supported, or a plain path where Spark's default file system is another than file:."""
    if needs_spark(base):
        if spark is None:
            raise OptionRefused("is reached by Spark's Hadoop client, and there is no Spark session", base=base)
        return HadoopFiles(spark, normal_base(base))
    if spark is not None and not base.startswith("file:"):
        default = hadoop_context(spark)._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
        if not default.startswith("file:"):
            raise OptionRefused(f"could be on this machine or on {default}; write file://{base} or {default}{base}",
                                base=base)  # fmt: skip
    return LocalFiles()


def _clean(path: str, base: str) -> str:
    if ".." in path.split("/"):
        raise OptionRefused("has .. in it; write the folder that is meant", base=base)
    clean = posixpath.normpath(f"/{path.lstrip('/')}")
    return "" if clean == "/" else clean
