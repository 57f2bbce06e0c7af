"""Engines that have leaked are replaced: the session moves to a spare, and its clients notice nothing.

The next engine loads the units while the last one goes on serving. Only when it is ready everything stands still, for
as long as it takes to carry over what the session holds; the last engine goes when the next one has all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tiremote.protocol.error_wire import error_from_wire
from tiremote.protocol.packing import pack, unpack
from tiremote.protocol.results import Limits
from tiremote.worker.front.leaks import Leak
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.recovery import ending
from tiremote.worker.front.scheduler import Scheduler
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Engine, MoveStep, Session
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Done, Message, Move, Ready

_log = logging.getLogger(__name__)

_ANY_SIZE = Limits(header_bytes=1 << 31)
#: From as many times what is borne on the session is moved between two requests, and not only while it rests.
_URGENT = 2
#: A session rests when it has had nothing to do for so long; a moment of rest is enough when all is prepared.
_REST = 1.0
_MOMENT = 0.1
#: While loads follow one another faster than that, units are not loaded beside: they would be old at once.
_HAIL = 2.0
#: How long a move may take, and how long clients may wait for it.
_PATIENCE = 60.0
_WAIT = 15.0
#: When it is tried again after it was not possible, at first and at the latest.
_AGAIN, _AGAIN_AT_MOST = 30.0, 600.0
#: Pieces that the next engine has not written yet.
_WINDOW = 2

_Phase = Literal["waiting", "surveying", "opening", "building", "ready", "carrying", "settling"]


@dataclass(eq=False, kw_only=True, slots=True)
class _Move:
    """One session on its way. ``held``: its work waits until it has arrived."""

    session: Session
    old: Engine
    urgent: bool
    loads: int
    started: float
    phase: _Phase = "waiting"
    heir: Engine | None = None
    blueprint: tuple[Any, ...] = ()
    held_since: float | None = None
    #: Of the pieces that are carried: how many there are, the next to be asked for, and those not written yet.
    pieces: int = 0
    next: int = 0
    under_way: int = 0
    #: How often somebody came in between: whoever comes often is given more time.
    put_off: int = 0
    #: A step of the last engine, or of the next one, that is not over yet; a carrying that was broken off is not over
    #: before these are.
    asked: set[int] = field(default_factory=set)

    @property
    def is_held(self) -> bool:
        return self.held_since is not None

    @property
    def moment(self) -> float:
        """For how long the session has to rest before it is carried."""
        return min(_MOMENT * 2.0**self.put_off, _REST)


class Recycling:
    """Sans-IO. ``memory_of(pid)`` tells a process's resident bytes."""

    def __init__(
        self,
        settings: Settings,
        sessions: SessionTable,
        scheduler: Scheduler,
        memory_of: Callable[[int], int | None],
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._scheduler = scheduler
        self._pool: EnginePool = scheduler.pool
        self._memory_of = memory_of
        self._moves: dict[str, _Move] = {}

    # ------------------------------------------------------------ what is told

    def told(self, session: Session) -> str | None:
        """How it stands with a session, for people; None where there is nothing to say."""
        if not self._settings.recycle_bytes:
            return "off"
        if session.id in self._moves:
            return "under way"
        if session.leak.refused is not None:
            return f"not possible: {session.leak.refused}"
        return "due" if self._is_due(session.leak) else None

    # ------------------------------------------------------------ time

    def tick(self, now: float) -> None:
        """Does what is due."""
        if not self._settings.recycle_bytes:
            return
        for session in self._sessions:
            self._look(session, now)
            if session.id not in self._moves and self._may_begin(session, now):
                self._begin(session, now)
        for move in list(self._moves.values()):
            self._advance(move, now)

    def next_deadline(self, now: float) -> float | None:
        """When `tick` has something to do that nothing else wakes it for."""
        times = []
        for session in self._sessions if self._settings.recycle_bytes else ():
            leak = session.leak
            if session.id not in self._moves and self._is_due(leak) and self._is_quiet(session):
                times.append(max(leak.busy_at + _REST, leak.not_before))
        for move in self._moves.values():
            times.append(move.started + _PATIENCE)
            if move.held_since is not None:
                times.append(move.held_since + _WAIT)
            elif move.phase == "ready" and self._is_quiet(move.session):
                times.append(move.session.leak.busy_at + move.moment)
        return min((time for time in times if time > now), default=None)

    def _look(self, session: Session, now: float) -> None:
        engine, leak = session.engine, session.leak
        if not self._is_quiet(session):
            leak.busy_at = now
        if engine is None or engine.state != "serving" or engine.pid is None or session.loads == leak.loads:
            return
        memory = self._memory_of(engine.pid)
        if memory is not None:
            leak.look(engine.number, memory, _resident_arrays(session), session.loads, now)

    def _is_due(self, leak: Leak) -> bool:
        return leak.nbytes >= self._settings.recycle_bytes * leak.patience

    def _is_urgent(self, leak: Leak) -> bool:
        return leak.nbytes >= _URGENT * self._settings.recycle_bytes * leak.patience

    def _is_quiet(self, session: Session) -> bool:
        return not (session.queue or session.mourning or (session.engine is not None and session.engine.inflight))

    def _may_begin(self, session: Session, now: float) -> bool:
        engine, leak = session.engine, session.leak
        if engine is None or not engine.restored or engine.chores or not self._is_due(leak):
            return False
        rests = self._is_quiet(session) and now >= leak.busy_at + _REST
        return now >= leak.not_before and (rests or self._is_urgent(leak))

    def _begin(self, session: Session, now: float) -> None:
        if session.engine is None:
            raise AssertionError("it has an engine that leaks")
        if self._pool.spare(session) is None:
            # Nobody waits for an engine to start.
            self._pool.want_spare(session)
            return
        urgent = self._is_urgent(session.leak)
        move = _Move(session=session, old=session.engine, urgent=urgent, loads=session.loads, started=now)
        self._moves[session.id] = move
        if urgent and max(session.leak.interval, now - session.leak.looked_at) < _HAIL:
            self._hold(move, now)

    # ------------------------------------------------------------ one move

    def _advance(self, move: _Move, now: float) -> None:
        session = move.session
        if session.engine is not move.old or move.old.state != "serving":
            # It was lost, or the session has ended: that is handled elsewhere.
            self._end(move)
        elif move.held_since is not None and now >= move.held_since + _WAIT:
            self._fail(move, f"it takes longer than {_WAIT:g} s", now)
        elif now >= move.started + _PATIENCE:
            if move.phase in ("ready", "carrying"):
                # There was no time for it.
                self._end(move)
                session.leak.not_before = now + _AGAIN
            else:
                self._fail(move, f"it takes longer than {_PATIENCE:g} s", now)
        elif move.phase == "waiting":
            if not move.old.chores and not (move.is_held and move.old.inflight):
                move.loads, move.phase = session.loads, "surveying"
                self._ask(move, move.old, "survey", {"options": session.taichi_options()})
        elif move.phase in ("building", "ready") and session.loads != move.loads:
            # Other texts now. Where that goes on, the next time everything waits.
            self._end(move)
            session.leak.not_before = now + (0.0 if move.urgent else _REST)
        elif move.phase == "ready":
            self._carry_if_quiet(move, now)
        elif move.phase == "carrying":
            self._put_off_if_needed(move)

    def _carry_if_quiet(self, move: _Move, now: float) -> None:
        quiet = self._is_quiet(move.session) and now >= move.session.leak.busy_at + move.moment
        if move.urgent and not move.is_held:
            self._hold(move, now)
        if move.asked or move.old.inflight or move.old.chores or not (quiet or move.is_held):
            return
        move.phase = "carrying"
        move.next, move.pieces, move.under_way = 0, 0, 0
        self._ask_for_more(move)

    def _put_off_if_needed(self, move: _Move) -> bool:
        """Somebody may have come: then all of it is carried anew later."""
        if not move.is_held and not self._is_quiet(move.session):
            move.phase = "ready"
            move.put_off += 1
        return move.phase == "ready"

    def _ask_for_more(self, move: _Move) -> None:
        if move.next <= move.pieces and move.under_way < _WINDOW:
            self._ask(move, move.old, "give", {"number": move.next})
            move.next += 1
            move.under_way += 1

    def _hold(self, move: _Move, now: float) -> None:
        move.held_since = now
        move.session.held = True

    def _ask(self, move: _Move, engine: Engine, step: str, body: dict[str, Any], buffers: tuple[Any, ...] = ()) -> None:
        move.asked.add(self._tell(engine, step, body, buffers))

    def _tell(self, engine: Engine, step: str, body: dict[str, Any], buffers: tuple[Any, ...] = ()) -> int:
        key = self._scheduler.new_key()
        engine.moving[key] = MoveStep(step=step, number=body.get("number", 0))
        self._pool.tell(engine, Move(key=key, step=step, body=pack(body, [])), buffers)
        return key

    # ------------------------------------------------------------ what engines say

    def takes(self, number: int, message: Message, buffers: list[Any], now: float) -> bool:
        """Handles what an engine says that belongs to a move; False for anything else."""
        engine = self._pool.engines.get(number)
        if engine is None or engine.session is None:
            return False
        session, move = engine.session, self._moves.get(engine.session.id)
        step = engine.moving.pop(message.key, None) if isinstance(message, Done) else None
        if isinstance(message, Ready) and engine.is_heir and move is not None:
            self._on_ready(move, engine, message, now)
        elif isinstance(message, Done) and step is not None and not message.poisoned:
            if not engine.is_heir:
                session.ledger = message.ledger or session.ledger
            if move is not None and message.key in move.asked:
                self._on_done(move, step, message, buffers, now)
        else:
            # One whose device is lost ends by itself.
            return engine.is_heir
        return True

    def _on_ready(self, move: _Move, heir: Engine, message: Ready, now: float) -> None:
        if message.failure:
            self._fail(move, error_from_wire(*message.failure).message, now)
            return
        heir.info, move.phase = message.info, "building"
        self._ask(move, heir, "build", {"thorough": not move.is_held}, move.blueprint)
        move.blueprint = ()

    def _on_done(self, move: _Move, step: MoveStep, done: Done, buffers: list[Any], now: float) -> None:
        move.asked.discard(done.key)
        told = unpack(done.body, buffers, _ANY_SIZE)
        if not done.ok:
            if done.fault:
                _log.error("session %s: a fault of this worker:\n%s", move.session.id, done.fault)
            self._fail(move, error_from_wire(*told).message, now)
        elif told["refused"] is not None:
            self._fail(move, told["refused"], now)
        elif step.step == "survey":
            self._on_survey(move, told, tuple(buffers))
        elif step.step == "build":
            move.phase = "ready"
            self._pool.fill()
        elif step.step == "settle":
            self._arrive(move, done, now)
        elif move.phase == "carrying" and move.heir is not None:
            self._carry(move, move.heir, step, told, tuple(buffers))

    def _on_survey(self, move: _Move, told: dict[str, Any], blueprint: tuple[Any, ...]) -> None:
        if told["left"] and not move.is_held and self._is_quiet(move.session):
            move.phase = "waiting"
            return
        session, heir = move.session, self._pool.spare(move.session)
        if heir is None:
            # Somebody else has taken it meanwhile.
            self._end(move)
            return
        move.heir, move.blueprint, move.phase = heir, blueprint, "opening"
        heir.session, heir.is_heir = session, True
        options = {**session.taichi_options(), **told["options"]}
        self._pool.open(heir, session, generation=session.generation + 1, options=options)

    def _carry(self, move: _Move, heir: Engine, step: MoveStep, told: dict[str, Any], buffers: tuple[Any, ...]) -> None:
        if self._put_off_if_needed(move):
            return
        if step.step == "give":
            move.pieces = told.get("pieces", move.pieces)
            self._ask(move, heir, "take", {"number": step.number}, buffers)
        else:
            move.under_way -= 1
        if step.step == "take" and step.number == move.pieces:
            move.phase = "settling"
            # From here on it is a moment: whoever comes now waits.
            move.session.held = True
            self._ask(move, heir, "settle", {})
        else:
            self._ask_for_more(move)

    def _arrive(self, move: _Move, done: Done, now: float) -> None:
        session, old, heir = move.session, move.old, move.heir
        if heir is None or heir.pid is None:
            raise AssertionError("an engine that speaks has a process")
        memory, waited = self._memory_of(heir.pid), now - (move.held_since or now)
        _log.info(
            "session %s: engine %s (pid %s) had leaked %s MB and is replaced by engine %s (pid %s); work waited %.3f s",
            session.id, old.number, old.pid, session.leak.nbytes >> 20, heir.number, heir.pid, waited,
        )  # fmt: skip
        heir.is_heir, heir.state, heir.refilled, heir.restored = False, "serving", True, True
        session.engine = heir
        session.generation += 1
        session.unsaved = True
        session.ledger = done.ledger or session.ledger
        move.heir = None
        worth = self._settings.recycle_bytes // 2
        session.leak.begin_anew(heir.number, memory, _resident_arrays(session), session.loads, now, worth=worth)
        self._pool.dismiss(old, now)
        self._end(move)
        self._warm_up(session, heir)
        self._scheduler.pump(session, now)

    def _warm_up(self, session: Session, engine: Engine) -> None:
        if self._is_quiet(session):
            self._tell(engine, "warm up", {})

    # ------------------------------------------------------------ the end of a move

    def on_exit(self, number: int, returncode: int, now: float) -> bool:
        """Handles the end of an engine that was to take a session over; False for any other."""
        engine = self._pool.engines.get(number)
        if engine is None or not engine.is_heir:
            return False
        del self._pool.engines[number]
        move = self._moves.get(engine.session.id) if engine.session is not None else None
        if move is not None and move.heir is engine:
            move.heir = None
            self._fail(move, f"the next engine {ending(returncode)}", now)
        self._pool.fill()
        return True

    def _fail(self, move: _Move, why: str, now: float) -> None:
        leak = move.session.leak
        _log.warning("session %s stays in engine %s: %s", move.session.id, move.old.number, why)
        leak.refuse(why, now + min(_AGAIN * 2**leak.refusals, _AGAIN_AT_MOST))
        self._end(move)
        self._scheduler.pump(move.session, now)

    def _end(self, move: _Move) -> None:
        self._moves.pop(move.session.id, None)
        move.session.held = False
        if move.heir is not None:
            # It has part of a session's contents, and is of no use to anybody else.
            self._pool.kill(move.heir)
            move.heir.state = "leaving"
        self._pool.fill()


def _resident_arrays(session: Session) -> int:
    """Bytes of arrays, and of chunks of what clients sent, that lie in the engine's own memory."""
    info, ledger = session.engine.info if session.engine is not None else None, session.ledger
    if info is not None and info.arch != "cpu":
        return ledger.host_bytes + ledger.chunk_bytes
    return ledger.unit_bytes() + session.array_bytes() + ledger.chunk_bytes
