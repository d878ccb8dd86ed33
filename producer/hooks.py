"""One hook of a callback handler at a time: what it makes of the items it is given, and what it leaves out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from groundwork.failures import Failures
from producer.errors import HandlerFailed, raised_by_users
from producer.handlers import CallbackHandler, Item

log = logging.getLogger(__name__)


class Made(NamedTuple):
    """items go on; out are those of the given ones that do not, for that reason."""

    items: list[Item]
    out: list[Item]
    reason: HandlerFailed


class Hooks:
    """at: where the worker is in somebody else's code; empty: it is not."""

    def __init__(self, callbacks: CallbackHandler, own: bool) -> None:
        self.at = ""
        self._theirs = raised_by_users(own)
        self._failures = Failures(log, "callback.handler: after_enqueue")
        self._callbacks = callbacks

    def before(self, item: Item) -> Item:
        """What is queued in place of item.  Raises HandlerFailed."""
        try:
            queued = self._callbacks.before_enqueue(item)
        except Exception as exc:  # a user's code may raise anything
            raise _failed("before_enqueue", exc) from exc
        if not isinstance(queued, Item):
            raise HandlerFailed(f"callback.handler: before_enqueue gave back a {type(queued).__name__}, not an Item")
        return queued

    def after(self, item: Item, added: bool) -> None:
        """What it raises changes nothing: the item is in the queue, or its sender hears QueueFull."""
        try:
            self._callbacks.after_enqueue(item, added)
        except Exception as exc:  # a user's code may raise anything
            self._failures.raised(exc, repr(item))

    def made(self, name: str, call: Callable[[], list[Item]], came: list[Item]) -> Made:
        """What the hook of that name makes of the items that came to it.

        One that keeps an item's promise has not taken it out, however it changed the rest.
        """
        self.at = f"callback.handler: {name}"
        try:
            items = call()
        except self._theirs as exc:
            return Made([], came, _failed(name, exc))
        finally:
            self.at = ""
        if not isinstance(items, list) or not all(isinstance(item, Item) for item in items):
            return Made([], came, HandlerFailed(f"callback.handler: {name} gave back no list of Item"))
        kept = {id(item.promise) for item in items}
        out = [item for item in came if id(item.promise) not in kept]
        return Made(items, out, HandlerFailed(f"callback.handler: {name} took it out"))


def _failed(hook: str, exc: BaseException) -> HandlerFailed:
    failed = HandlerFailed(f"callback.handler: {hook} raised {type(exc).__name__}: {exc}")
    failed.__cause__ = exc
    return failed
