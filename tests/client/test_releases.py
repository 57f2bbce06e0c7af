"""Which handles are to be released, and when."""

from __future__ import annotations

from tiremote.client.releases import Releases
from tiremote.protocol.values import Handle


class Proxy:
    pass


def releases(*handles: Handle) -> Releases:
    made = Releases()
    made.active = True
    for handle in handles:
        made.adopt(handle)
    return made


def test_a_handle_is_released_with_its_last_proxy() -> None:
    """Two proxies of one array: the first may go."""
    handle = Handle(kind="ndarray", id="1")
    made = releases(handle)
    one, other = Proxy(), Proxy()
    made.track(one, handle)
    made.track(other, handle)
    del one
    assert made.take() == ()
    del other
    assert made.take() == (handle,)
    assert made.take() == ()


def test_what_this_client_did_not_make_is_never_released() -> None:
    """Nor in a session that is not its own."""
    handle = Handle(kind="ndarray", id="1")
    made = releases()
    proxy = Proxy()
    made.track(proxy, handle)
    del proxy
    assert made.take() == ()
    made.active = False
    made.adopt(handle)
    proxy = Proxy()
    made.track(proxy, handle)
    del proxy
    assert made.take() == ()


def test_what_was_freed_is_not_released_again() -> None:
    """By `free`, or with everything."""
    first, second = Handle(kind="ndarray", id="1"), Handle(kind="ndarray", id="2")
    made = releases(first, second)
    proxies = [Proxy(), Proxy()]
    made.track(proxies[0], first)
    made.track(proxies[1], second)
    made.forget(first)
    made.clear()
    proxies.clear()
    assert made.take() == ()
