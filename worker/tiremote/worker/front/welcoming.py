"""Clients say hello: to a session that is there, or to a new one, whose engine they wait for."""

from __future__ import annotations

from importlib.metadata import version as package_version

from tiremote.protocol.coding import known_codings
from tiremote.protocol.errors import Refused, TiremoteError, VersionMismatch
from tiremote.protocol.messages import OLDEST_VERSION, OPS, VERSION, Hello
from tiremote.protocol.results import HelloResult
from tiremote.worker.front.answers import Answers
from tiremote.worker.front.pool import EnginePool
from tiremote.worker.front.routes import Route
from tiremote.worker.front.session_table import SessionTable
from tiremote.worker.front.sessions import Session
from tiremote.worker.front.settings import Settings

WORKER_VERSION = package_version("tiremote")


class Welcoming:
    """Sans-IO. Every hello is answered when its session's engine serves it, or never will."""

    def __init__(self, settings: Settings, sessions: SessionTable, pool: EnginePool, answers: Answers) -> None:
        self._settings = settings
        self._sessions = sessions
        self._pool = pool
        self._answers = answers

    def hello(self, route: Route, user: str, request: Hello, now: float, *, draining: bool) -> None:
        """A client wants a session. Raises why it gets none."""
        lowest, highest = request.versions
        if lowest > VERSION or highest < OLDEST_VERSION:
            raise VersionMismatch(
                f"the client speaks versions {lowest} to {highest}, this worker {OLDEST_VERSION} to {VERSION}",
                supported=(OLDEST_VERSION, VERSION),
            )
        seat = self._sessions.seat(user, request, now)
        session = self._sessions.named(request.session, user) if seat is None else seat.session
        rejoined = session is not None
        if session is None:
            if draining:
                raise Refused("the worker is shutting down and takes no new sessions")
            session = self._sessions.make(request, user, now)
        else:
            _same_options(session, request)
        seat = seat or self._sessions.make_seat(session, request, user, now)
        if request.lease is not None:
            session.lease = request.lease
        session.welcomes.append((route, request, seat, rejoined))
        if session.engine is None:
            self._pool.claim(session)
        elif session.engine.state == "serving":
            self.on_open(session, None)

    def on_open(self, session: Session, error: TiremoteError | None) -> None:
        """The session's engine serves it, or never will: those who said hello are waiting."""
        welcomes, session.welcomes = session.welcomes, []
        for route, request, seat, rejoined in welcomes:
            if error is not None:
                self._answers.fail(route, request.id, error)
                continue
            if session.engine is None or session.engine.info is None:
                raise AssertionError("an open session has an engine that has told what it runs on")
            result = HelloResult(
                version=min(request.versions[1], VERSION),
                token=seat.token,
                session=session.name or session.id,
                engine=session.engine.info,
                worker_version=WORKER_VERSION,
                limits=self._settings.limits,
                ops=tuple(OPS),
                options=session.options,
                runtimes=self._settings.runtimes,
                rejoined=rejoined,
                lease=session.lease,
                generation=session.generation,
                codings=known_codings(),
                chunk_cache=self._settings.chunk_cache,
                chunk_key=session.id,
            )
            self._answers.ok(route, request.id, result)
        if error is not None and not (session.units or session.holdings()):
            self._sessions.forget(session)


def _same_options(session: Session, request: Hello) -> None:
    for name, value in request.options.items():
        if name not in session.options or session.options[name] != value:
            raise Refused(
                f"the session runs with {name}={session.options.get(name)!r}, not {value!r}: "
                "use another session name, or leave the option out"
            )
