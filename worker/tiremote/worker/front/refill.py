"""Arrays into a new engine: a few at a time, since what is on its way is held twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle
from tiremote.worker.front.copies import CopyStore, HostCopy
from tiremote.worker.front.losses import name_of
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.sessions import Engine, Refilling, Session
from tiremote.worker.link import PutBack

#: Messages under way at a time, and about how many bytes of arrays.
_MOST_MESSAGES = 16
_MOST_BYTES = 64 << 20
#: Of one array in one message: each piece may take a descriptor.
_MOST_PIECES = 64
_MESSAGE_BYTES = 32 << 20


class Refill:
    """Sends the copies of a session to its engine, and has the handles of its units' own arrays made again.

    ``anew``: also those of arrays of which there is no copy, with zeros in them.
    """

    def __init__(self, pool: EnginePool, copies: CopyStore, new_key: Callable[[], int], *, anew: bool = False) -> None:
        self._pool = pool
        self._copies = copies
        self._new_key = new_key
        self._anew = anew

    def begin(self, engine: Engine, session: Session) -> None:
        """Lists what is to be put back."""
        with_copy = set()
        for copy in self._copies.of(session.id):
            if isinstance(copy.target, Handle):
                if copy.target.id not in session.stock:
                    # It was made by a request whose answer the engine never gave.
                    self._copies.drop(session.id, copy.target)
                    continue
                with_copy.add(copy.target.id)
            chore = Refilling(target=copy.target, name=name_of(session, copy.target), copy=replace(copy, pieces=()))
            for first, last in _cut(copy):
                nbytes = sum(piece.nbytes for piece, _ in copy.pieces[first:last])
                engine.refills.append(replace(chore, pieces=(first, last), nbytes=nbytes))
        for id_, holding in session.stock.items():
            if id_ not in with_copy and self._needs_no_copy(holding):
                engine.refills.append(Refilling(target=holding.handle, name=name_of(session, holding.handle)))

    def _needs_no_copy(self, holding: ArrayHolding) -> bool:
        return holding.place is not None or (self._anew and holding.handle.kind != "object")

    def send(self, engine: Engine, session: Session) -> None:
        """Sends as much as may be under way."""
        while engine.refills:
            following = engine.refills[0]
            under_way = [one for one in engine.chores.values() if isinstance(one, Refilling)]
            full = len(under_way) >= _MOST_MESSAGES or sum(one.nbytes for one in under_way) >= _MOST_BYTES
            # Of an array that fails nothing more is to be on its way.
            if full or any(one.target == following.target for one in under_way):
                return
            engine.refills.popleft()
            self._send(engine, session, following)

    def _send(self, engine: Engine, session: Session, chore: Refilling) -> None:
        target = chore.target
        copy = self._copies.get(session.id, target)
        holding = session.stock.get(target.id) if isinstance(target, Handle) else None
        if copy is None and (holding is None or not self._needs_no_copy(holding)):
            # Another session needed the room meanwhile.
            self.forget(engine, session, chore, "another session needed the room that its copy took")
            return
        first, last = chore.pieces
        pieces = () if copy is None else copy.pieces[first:last]
        message = PutBack(
            key=self._new_key(),
            target=target,
            dtype="" if copy is None else copy.dtype,
            shape=() if copy is None else copy.shape,
            pieces=tuple(piece for piece, _ in pieces),
            holding=holding,
        )
        engine.chores[message.key] = chore
        self._pool.tell(engine, message, tuple(data for _, data in pieces))

    def forget(self, engine: Engine, session: Session, chore: Refilling, reason: str) -> None:
        """The array cannot be put back."""
        session.unrestored[chore.target] = f"{chore.name} ({reason})"
        self._copies.drop(session.id, chore.target)
        if isinstance(chore.target, Handle):
            session.stock.pop(chore.target.id, None)
        while engine.refills and engine.refills[0].target == chore.target:
            engine.refills.popleft()


def _cut(copy: HostCopy) -> Iterator[tuple[int, int]]:
    """Ranges of its pieces, each for one message."""
    first = size = 0
    for number, (piece, _) in enumerate(copy.pieces):
        if number > first and (number - first == _MOST_PIECES or size + piece.nbytes > _MESSAGE_BYTES):
            yield first, number
            first, size = number, 0
        size += piece.nbytes
    yield first, len(copy.pieces)
