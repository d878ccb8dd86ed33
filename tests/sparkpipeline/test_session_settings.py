"""Settings of a session beside those of users, administrators and spark-submit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparkpipeline.errors import OptionRefused
from sparkpipeline.sparksession import REDACTION, check_spark, settings_for

SOCKET = "spark.python.unix.domain.socket.enabled"


@pytest.mark.parametrize("master", ["yarn", "spark://h:7077", "k8s://https://h:6443", ""])
def test_tasks_on_other_machines_get_no_socket_below_their_container(master: str) -> None:
    assert SOCKET not in settings_for({"spark.master": master})


def test_what_is_set_stays_and_what_is_not_is_added() -> None:
    assert settings_for({"spark.master": "local[*,4]"})[SOCKET] == "true"
    assert SOCKET not in settings_for({"spark.master": "local[2]", SOCKET: "false"})
    assert settings_for({"spark.master": "yarn", "spark.sql.session.timeZone": "Asia/Tokyo"})[
        "spark.sql.session.timeZone"
    ] == "UTC"  # fmt: skip


@pytest.mark.parametrize("version", ["3.5.8", "4.0.1", "4.1.0.dev0"])
def test_an_older_spark_is_named_with_the_one_that_is_needed(version: str) -> None:
    with pytest.raises(OptionRefused, match=rf"Spark 4\.2 or later is needed, and this is {version}"):
        check_spark(version)
    for newer in ("4.2.0", "4.3.0", "5.0.0", "10.1"):
        check_spark(newer)
    check_spark()


@pytest.mark.parametrize("said", [None, "(?i)url", "(?i)secret|kennwort"])
def test_the_administrators_redaction_stays_and_ours_is_added(said: str | None) -> None:
    found = settings_for({} if said is None else {REDACTION: said})[REDACTION]
    assert found == rf"(?:{said or '(?i)url'})|(?i:zookeeper\.auth)"
    assert settings_for({REDACTION: found})[REDACTION] == found


SHOWN = """
import json, sys
from sparkpipeline.sparksession import quiet_session, stop_session
spark = quiet_session("settings", "local[1]", {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
                      "spark.driver.bindAddress": "127.0.0.1"})
names = sys.argv[1:]
print(json.dumps({name: spark.sparkContext.getConf().get(name) or spark.conf.get(name, None) for name in names}))
stop_session(spark)
"""


@pytest.mark.real
@pytest.mark.spark
def test_an_administrators_defaults_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{SOCKET} false\n{REDACTION} (?i)kennwort\nspark.app.team old\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    names = [SOCKET, REDACTION, "spark.app.team", "spark.sql.session.timeZone"]
    ran = subprocess.run([sys.executable, "-c", SHOWN, *names], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert (found[SOCKET], found["spark.app.team"], found["spark.sql.session.timeZone"]) == ("false", "old", "UTC")
    assert found[REDACTION] == r"(?:(?i)kennwort)|(?i:zookeeper\.auth)"
