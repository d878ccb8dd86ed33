"""The Spark that the commands need.  Other things that differ between releases are decided where they are used."""

from __future__ import annotations

import re

from sparkpipeline.errors import OptionRefused

LEAST = (4, 2)  # brought admission control and AvailableNow to Python sources, and a second registration of one name


def check_spark(version: str | None = None) -> None:
    """Raise OptionRefused where Spark is older than the commands need.  version: of pyspark, as it is installed."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < LEAST:
        least = ".".join(map(str, LEAST))
        raise OptionRefused(
            f"Spark {least} or later is needed, and this is {version}: pip install 'pyspark>={least}', or give"
            " spark-submit of such a release"
        )
