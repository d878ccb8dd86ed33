"""What a user paused: topics and partitions, owned or not, so that it outlives a rebalance.  Pure."""

from __future__ import annotations

from kafkawire.model import TopicPartition

What = str | TopicPartition  # a topic, with all partitions it has or will have; or one partition


class Pauses:
    """The word said last counts: a partition may be an exception to its topic, until its topic is named again."""

    def __init__(self) -> None:
        self._said: dict[What, bool] = {}

    def say(self, what: What, paused: bool) -> None:
        if isinstance(what, TopicPartition):
            self._said[what] = paused
            return
        exceptions = [one for one in self._said if isinstance(one, TopicPartition) and one.topic == what]
        for tp in exceptions:
            del self._said[tp]
        self._said[what] = paused

    def __contains__(self, tp: TopicPartition) -> bool:
        return self._said.get(tp, self._said.get(tp.topic, False))

    def __repr__(self) -> str:
        return f"<Pauses of {', '.join(str(what) for what, paused in self._said.items() if paused) or 'nothing'}>"
