"""A Python with pyspark and pyarrow and nothing else: what an executor has where nothing of ours was installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from localkafka.java import quick_spark

PACKAGES = ("pyspark", "py4j", "pyarrow")


def bare_python(folder: Path) -> Path:
    """Its interpreter: a virtual environment in this folder, whose packages are links to ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    [packages] = folder.glob("lib/python3*/site-packages")
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        assert found is not None, f"{name} is not installed"
        assert found.origin is not None
        (packages / name).symlink_to(Path(found.origin).parent)
    return folder / "bin" / "python"


def environment(python: Path) -> dict[str, str]:
    """For processes of Spark that run this Python and see nothing of the checkout."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return {
        **ours,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **quick_spark(),
        "SPARK_HOME": str(spark_home()),
    }


def spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
