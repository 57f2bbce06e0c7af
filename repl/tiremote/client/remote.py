"""What every proxy of something on the worker is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiremote.client.exchange import Exchange
    from tiremote.protocol.values import Ref


class Remote:
    """Something on the worker: ``_target`` is what the worker knows it by."""

    __slots__ = ("__weakref__", "_exchange", "_target")

    def __init__(self, exchange: Exchange, target: Ref) -> None:
        self._exchange = exchange
        self._target = target
