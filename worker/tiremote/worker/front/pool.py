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
        self._let_go()
        idle = len(self._free(self._settings.runtime))
        if self._leaving or self._failed_starts >= self._settings.failed_starts:
            return
        # The first has to tell what they run on, also where none is to wait for a session.
        for _ in range(max(self._settings.spares, self.info is None) - idle):
            self._spawn(self._settings.runtime, self._settings.options)

    def _let_go(self) -> None:
        """Ends spares of other runtimes than the worker's own that no session uses any more."""
        used = {engine.session.runtime for engine in self.engines.values() if engine.session is not None}
        for runtime in {engine.runtime for engine in self.engines.values()} - used - {self._settings.runtime}:
            for engine in self._free(runtime):
                engine.state = "leaving"
                self.kill(engine)

    def _free(self, runtime: str) -> list[Engine]:
        """The engines of a runtime that are nobody's."""
        return [
            engine
            for engine in self.engines.values()
            if engine.session is None and engine.state != "leaving" and engine.runtime == runtime
        ]

    def _spawn(self, runtime: str, options: dict[str, Any]) -> Engine:
        engine = Engine(number=next(self._numbers), runtime=runtime)
        self.engines[engine.number] = engine
        self._effects.append(Spawn(engine.number, runtime))
        self.tell(engine, Prepare(options=options))
        return engine

    def _spawn_for(self, session: Session) -> Engine:
        is_own = session.runtime == self._settings.runtime
        return self._spawn(session.runtime, self._settings.options if is_own else session.taichi_options())

    def claim(self, session: Session) -> Engine:
        """Gives the session an engine of its own, the readiest there is. Only the worker's own runtime has spares."""
        free = self._free(session.runtime)
        engine = min(free, key=lambda one: one.state != "prepared", default=None)
        if engine is None:
            engine = self._spawn_for(session)
        engine.session, session.engine = session, engine
        session.generation += 1
        if engine.state == "prepared":
            self.open(engine, session)
        self.fill()
        return engine

    def spare(self, session: Session) -> Engine | None:
        """An engine that is ready and nobody's, with the session's runtime."""
        return next((engine for engine in self._free(session.runtime) if engine.state == "prepared"), None)

    def want_spare(self, session: Session) -> None:
        """Starts an engine for the session if none is ready or about to be."""
        if not (self._free(session.runtime) or self._leaving or self._failed_starts >= self._settings.failed_starts):
            self._spawn_for(session)

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
                options=options or session.taichi_options(),
                limits=self._settings.limits,
                snapshot_bytes=self._settings.copies_bytes,
                chunk_cache=self._settings.chunk_cache,
                last_words=session.last_words,
            ),
        )

    def prepared(self, engine: Engine, info: EngineInfo | None) -> None:
        """An engine has started."""
        engine.state, engine.info = "prepared", info
        if engine.runtime == self._settings.runtime:
            self._failed_starts = 0
            self.info = self.info or info
        if engine.session is not None:
            self.open(engine, engine.session)

    def not_prepared(self, engine: Engine, error: TiremoteError) -> None:
        """An engine could not start. After some in a row none is tried until a session asks for one."""
        if engine.runtime == self._settings.runtime:
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
