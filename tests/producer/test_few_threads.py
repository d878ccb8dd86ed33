"""A producer whose process can start no more threads (ulimit -u, pids.max)."""

from __future__ import annotations

from tests.fakes.broker import FakeCluster
from tests.fewthreads import said


def options_of(cluster: FakeCluster) -> dict[str, str]:
    return {"metadata.broker.list": f"localhost:{cluster.bootstrap[0][1]}", "kafka.version": "0.8.2"}


def test_a_producer_that_has_its_threads_goes_on_without_further_ones() -> None:
    with FakeCluster({"t": 1}) as cluster:
        lines = said(
            f"""
            from producer.producer import Producer

            producer = Producer({options_of(cluster)})
            producer.send("t", b"v").result(10)
            no_more_threads()
            called = []
            sent = producer.send("t", b"w", on_delivery=called.append)
            print(sent.result(10).offset)
            producer.close(10)
            print(len(called), producer.counts.failed)
            """
        )
        assert lines == ["1", "1 0"]
        assert cluster.values("t", 0) == [b"v", b"w"]


def test_a_message_that_no_thread_was_there_to_handle_is_not_queued() -> None:
    with FakeCluster({"t": 1}) as cluster:
        lines = said(
            f"""
            from producer.handlers import CallbackHandler
            from producer.producer import Producer

            producer = Producer({options_of(cluster)}, callback_handler=CallbackHandler())
            producer.start()
            no_more_threads()
            for _ in range(2):
                try:
                    producer.send("t", b"refused")
                except NoThread as why:
                    print(str(why).partition(":")[0])
            as_before()
            print(producer.send("t", b"v").result(10).offset)
            producer.close(10)
            """
        )
        assert lines == ["no further thread can be started"] * 2 + ["0"]
        assert cluster.values("t", 0) == [b"v"]


def test_a_producer_whose_handlers_never_had_a_thread_is_flushed_and_closed_without_one() -> None:
    with FakeCluster({"t": 1}) as cluster:
        lines = said(
            f"""
            from producer.handlers import CallbackHandler
            from producer.producer import Producer

            class Handler(CallbackHandler):
                def last_batch_before_close(self):
                    print("last batch")
                    return []

                def close(self):
                    print("closed")

            producer = Producer({options_of(cluster)}, callback_handler=Handler())
            producer.start()
            no_more_threads()
            producer.flush(5)
            producer.close(5)
            print(len(threading.enumerate()))
            """
        )
        assert lines == ["closed", "last batch", "1"]


def test_a_producer_that_cannot_have_its_threads_says_so_and_starts_later() -> None:
    with FakeCluster({"t": 1}) as cluster:
        lines = said(
            f"""
            from producer.producer import Producer

            producer = Producer({options_of(cluster)})
            no_more_threads()
            try:
                producer.start()
            except OSError as why:
                print(str(why).partition(":")[0])
            as_before()
            print(producer.send("t", b"v").result(10).offset)
            producer.close(10)
            """
        )
        assert lines == ["no further thread can be started", "0"]
