"""The engines there are: spares, those that serve a session, those that leave."""

from __future__ import annotations

from itertools import count
from typing import Any

from tiremote.protocol.errors import TiremoteError
from tiremote.protocol.results import EngineInfo
from tiremote.worker.front.effects import Effect, Kill, Spawn, ToEngine
from tiremote.worker.front.sessions import Engine, Session
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Exit, Message, Open, Prepare


class EnginePool:
    """Sans-IO: what is to be done goes to ``effects``, a list that the caller empties."""

    def __init__(self, settings: Settings, effects: list[Effect]) -> None:
        self._settings = settings
        self._effects = effects
        self._numbers = count(1)
        self._failed_starts = 0
        self._leaving = False
        self.engines: dict[int, Engine] = {}
        #: What an engine with the worker's own options runs on; None until the first is prepared.
        self.info: EngineInfo | None = None
        #: Why the worker's own options do not work, where they do not.
        self.unprepared: TiremoteError | None = None

    def tell(self, engine: Engine, message: Message, buffers: tuple[Any, ...] = ()) -> None:
        """Sends a message."""
        if engine.session is not None:
            engine.session.unsaved = True
        self._effects.append(ToEngine(engine.number, message, buffers))

    def kill(self, engine: Engine) -> None:
        """Ends its process at once; its end is still to be handled."""
        self._effects.append(Kill(engine.number))

    def fill(self) -> None:
        """Starts as many engines as there should be ready."""
        idle = sum(engine.session is None and engine.state != "leaving" for engine in self.engines.values())
        if self._leaving or self._failed_starts >= self._settings.failed_starts:
            return
        for _ in range(self._settings.spares - idle):
            self._spawn()

    def _spawn(self) -> Engine:
        engine = Engine(number=next(self._numbers))
        self.engines[engine.number] = engine
        self._effects.append(Spawn(engine.number))
        self.tell(engine, Prepare(options=self._settings.options))
        return engine

    def claim(self, session: Session) -> Engine:
        """Gives the session an engine of its own, the readiest there is."""
        free = [engine for engine in self.engines.values() if engine.session is None and engine.state != "leaving"]
        engine = min(free, key=lambda one: one.state != "prepared", default=None) or self._spawn()
        engine.session, session.engine = session, engine
        session.generation += 1
        if engine.state == "prepared":
            self.open(engine, session)
        self.fill()
        return engine

    def spare(self) -> Engine | None:
        """An engine that is ready and nobody's."""
        spares = (engine for engine in self.engines.values() if engine.session is None and engine.state == "prepared")
        return next(spares, None)

    def want_spare(self) -> None:
        """Starts an engine if none is ready or about to be."""
        idle = any(engine.session is None and engine.state != "leaving" for engine in self.engines.values())
        if not (idle or self._leaving or self._failed_starts >= self._settings.failed_starts):
            self._spawn()

    def open(
        self,
        engine: Engine,
        session: Session,
        *,
        generation: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Has a prepared engine serve its session."""
        engine.state = "opening"
        self.tell(
            engine,
            Open(
                session=session.id,
                generation=generation or session.generation,
                options=options or session.options,
                limits=self._settings.limits,
                snapshot_bytes=self._settings.copies_bytes,
                last_words=session.last_words,
            ),
        )

    def prepared(self, engine: Engine, info: EngineInfo | None) -> None:
        """An engine has started with the worker's own options."""
        self._failed_starts = 0
        engine.state, engine.info = "prepared", info
        self.info = self.info or info
        if engine.session is not None:
            self.open(engine, engine.session)

    def not_prepared(self, error: TiremoteError) -> None:
        """An engine could not start. After some in a row none is tried until a session asks for one."""
        self._failed_starts += 1
        self.unprepared = error

    def dismiss(self, engine: Engine, now: float, *, at_once: bool = False) -> None:
        """Sends an engine away; it may still write Taichi's cache, unless ``at_once``."""
        engine.session, engine.state = None, "leaving"
        if at_once:
            self.kill(engine)
        else:
            engine.kill_at = now + self._settings.farewell
            self.tell(engine, Exit())

    def leave(self, now: float) -> None:
        """Sends every engine away, none is started any more."""
        self._leaving = True
        for engine in self.engines.values():
            if engine.state != "leaving":
                self.dismiss(engine, now, at_once=engine.state == "starting" or bool(engine.inflight))
