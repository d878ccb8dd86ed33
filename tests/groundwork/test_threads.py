"""Too few threads: names, executors and hubs of a process that may start no more."""

from __future__ import annotations

import pytest

from groundwork.openfiles import shortage
from groundwork.threads import NoThread, starting_threads
from tests.fewthreads import said


def test_a_hub_without_a_thread_names_the_limit_and_starts_later() -> None:
    sentence, found = said(
        """
        hub = OwnThread()
        no_more_threads()
        try:
            hub.start()
        except NoThread as why:
            print(why)
        as_before()
        hub.start()
        print(hub.call(lambda: 7))
        hub.stop()
        """
    )
    assert sentence.startswith(
        "no further thread can be started: its user may have 1 processes and threads (ulimit -u)"
    )
    assert sentence.endswith("raise it with ulimit -u, LimitNPROC= and TasksMax= in its unit, or --pids-limit of its "
                             "container")  # fmt: skip
    assert found == "7"


@pytest.mark.parametrize("hub", ["own", "caller", "patched"])
def test_names_that_were_looked_up_before_keep_their_addresses(hub: str) -> None:
    """Twenty are asked for at once."""
    hub_of = {
        "own": "hub = OwnThread()",
        "caller": "hub = CallersHub()",
        "patched": "hub = CallersHub()",
    }
    lines = said(
        f"""
        {hub_of[hub]}
        hub.start()
        hub.call(addresses, "localhost", 80)
        no_more_threads()
        try:
            hub.call(addresses, "localhost.", 80)
        except NoThread as why:
            print(str(why).partition(":")[0])

        def look_up(found):
            found.append(addresses("localhost", 80)[0][4][1])

        def all_at_once():
            found, tasks = [], TaskGroup()
            for n in range(20):
                tasks.spawn(str(n), look_up, found)
            with deadline(20):
                while len(found) < 20 and not tasks.death:
                    sleep(0.01)
            return tasks.death or len(found)

        print(hub.call(all_at_once))
        """,
        "import gevent.monkey; gevent.monkey.patch_all()" if hub == "patched" else "",
    )
    assert lines == ["no further thread can be started", "20"]


def test_an_executor_without_a_thread_says_so_and_has_one_later() -> None:
    first, second, later = said(
        """
        hub = CallersHub()
        hub.start()
        beside = ThreadExecutor(hub)
        no_more_threads()
        for _ in range(2):
            try:
                with deadline(5, "the call"):
                    beside.call(divmod, 7, 2)
            except Exception as why:
                print(type(why).__name__)
        as_before()
        with deadline(5, "the call"):
            print(beside.call(divmod, 7, 2))
        """
    )
    assert (first, second, later) == ("NoThread", "NoThread", "(3, 1)")


def test_other_errors_are_none() -> None:
    assert shortage(RuntimeError("dictionary changed size during iteration")) == shortage(None) == ""
    with pytest.raises(RuntimeError, match="interpreter shutdown"), starting_threads():
        raise RuntimeError("can't create new thread at interpreter shutdown")
    wrapped = ValueError("it died")
    wrapped.__cause__ = RuntimeError("can't start new thread")
    assert shortage(wrapped).startswith("no further thread can be started")
    assert shortage(NoThread("said")) == "said"
