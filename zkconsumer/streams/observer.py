"""Observers: called with everything that the user of a stream gets.  An observer never costs a message.

    message(message)     of the message iterator, just before the message is delivered
    batch(columns)       of batches()
    message_set(set)     of sets(): it was not decompressed

An exception of an observer is logged and counted (groundwork.failures), and the message is still delivered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from groundwork.failures import Failures
from kafkawire.columns import Columns
from kafkawire.model import Message, MessageSet, TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")


class Observer(Protocol):
    """Observer of a stream.  Called in the reader's thread, with the keys and values as they were stored."""

    def message(self, message: Message, /) -> object: ...
    def batch(self, columns: Columns, /) -> object: ...
    def message_set(self, message_set: MessageSet, /) -> object: ...


class SafeObserver:
    """An observer whose exceptions are logged and counted.  called: its name in the log."""

    def __init__(self, observer: Observer, called: str) -> None:
        self._observer = observer
        self._failures = Failures(log, called)

    def message(self, message: Message) -> Message:
        """Pass the message to the observer, and return it."""
        try:
            self._observer.message(message)
        except Exception as e:
            tp = TopicPartition(message.topic, message.partition)
            self._failures.raised(e, f"{tp} at {message.offset}", then="; the message is delivered")
        return message

    def batch(self, tp: TopicPartition, columns: Columns) -> None:
        self._call(self._observer.batch, columns, f"{tp} before {columns.resume_at}")

    def message_set(self, message_set: MessageSet) -> None:
        self._call(self._observer.message_set, message_set, f"{message_set.tp} at {message_set.start}")

    def _call(self, observe: Callable[[T], object], what: T, where: str) -> None:
        try:
            observe(what)
        except Exception as e:
            self._failures.raised(e, where, then="; the messages are delivered")
