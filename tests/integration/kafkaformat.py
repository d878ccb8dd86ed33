"""Every option case through one format in a session of its own: a child of test_spark_option_cases.

Spark finds a connector only among the jars that its session began with; the session of the tests has none.
"""

from __future__ import annotations

import json
from pathlib import Path

from sparkpipeline.sparksession import spark_session
from tests.integration.optioncases import CASES, run


def main(source: str, brokers: str, place: str, folder: str) -> None:
    """Prints, as the last line, what each case reads or how it is refused."""
    found = ",".join(map(str, sorted(Path(folder).glob("*.jar"))))
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    session = spark_session("option cases", "local[2]", {**conf, "spark.jars": found})
    session.sparkContext.setLogLevel("OFF")
    try:
        outcomes = {case.name: run(session, source, case, brokers, place) for case in CASES}
    finally:
        session.stop()
    print(json.dumps(outcomes))
