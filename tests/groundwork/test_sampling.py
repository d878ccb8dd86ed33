"""Where greenlets wait, in a process that holds whatever a program may hold."""

from __future__ import annotations

import weakref

from greenlet import getcurrent, greenlet

from groundwork.sampling import GreenletStacks


class Thing:
    pass


def test_a_proxy_of_what_is_gone_hides_no_greenlet() -> None:
    gone = weakref.proxy(Thing())  # of nothing, from its first moment on
    here = getcurrent()

    def waits() -> None:
        here.switch()

    waiting = greenlet(waits)
    waiting.switch()
    try:
        assert waits.__code__ in [frame.f_code for frame in GreenletStacks().frames()]
    finally:
        waiting.switch()
    assert type(gone) is weakref.ProxyType
