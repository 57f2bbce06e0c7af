"""Calls of what is loaded and kept: kernels, functions, classes and methods; and those that are made over a lane."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tiremote.protocol.benchmarking import Bench, Benchmark
from tiremote.protocol.messages import Run
from tiremote.protocol.results import RunResult
from tiremote.protocol.values import Name
from tiremote.worker.engine.arguments import BoundCall, bind_call
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.references import References, attribute, shown
from tiremote.worker.engine.results import to_plain
from tiremote.worker.engine.runtime import TaichiRuntime
from tiremote.worker.engine.sites import Sites
from tiremote.worker.engine.tapes import Tapes
from tiremote.worker.engine.template_values import TemplateValues


class Runs:
    """Those of one session. ``sent`` makes of a plain result what travels. ``may_stop`` is called between two calls of
    one request, and raises where that is wanted.

    ``warnings`` and ``launch_seconds`` are of the request since `begin`.
    """

    def __init__(
        self,
        runtime: TaichiRuntime,
        loader: KernelLoader,
        references: References,
        tapes: Tapes,
        sent: Callable[[Any], Any],
        may_stop: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._runtime = runtime
        self._loader = loader
        self._references = references
        self._tapes = tapes
        self._sent = sent
        self._may_stop = may_stop
        self._clock = clock
        self._template_values = TemplateValues()
        self.sites = Sites(runtime)
        self.begin()

    def begin(self) -> None:
        """A request begins."""
        self.warnings: list[str] = []
        self.launch_seconds = 0.0

    def run(self, request: Run) -> RunResult:
        """Calls what the request names. Raises what that raises, and `KernelArgumentError`, `UnknownName`."""
        name, call = self._bound(request)
        if call.kernel is None:
            # It may bind names anew.
            self.sites.clear()
        if call.templates:
            self.warnings += self._template_values.note(call.kernel, call.kernel.func.__name__, call.templates)
        with self.launching(), self._tapes.recording(request, name):
            value = call.launch()
            self._runtime.sync()
        if isinstance(request.target, Name):
            unit = self._loader.loaded(request.target.unit)
            name = request.target.name if request.method is None else f"{request.target.name}.{request.method}"
            unit.record_call(name, call.values, call.takes, self._runtime)
        written = [[key, array] for key, array in call.written().items()]
        plain = to_plain(value, self._runtime)
        remembered = self.sites.note(request, call, plain)
        return RunResult(value=self._sent(plain), written=written, remembered=remembered)  # type: ignore[arg-type]

    def _bound(self, request: Run | Bench) -> tuple[str, BoundCall]:
        """What the call is known by, and the call with its arguments."""
        target = self._references.resolve(request.target)
        if request.method is not None:
            target = attribute(target, request.method, shown(request.target, target))
        name = request.method or shown(request.target, target)
        return name, bind_call(self._runtime, target, request.args, request.kwargs, name, self._references.resolve)

    def bench(self, request: Bench) -> Benchmark:
        """Makes the same call many times. Raises as `run` does."""
        compiled = self._runtime.compile_clock.compiled
        seconds = []
        for _ in range(request.warmup + request.repeats):
            self._may_stop()
            # Each time anew: what is an array of the message is another copy, as it came.
            name, call = self._bound(request)
            with self.launching():
                started = self._clock()
                call.launch()
                self._runtime.sync()
                seconds.append(self._clock() - started)
        return Benchmark(
            name=name,
            warmup=request.warmup,
            compile=self._runtime.compile_clock.compiled - compiled,
            launches=tuple(seconds[request.warmup :]),
        )

    @contextlib.contextmanager
    def launching(self) -> Iterator[None]:
        """Counts what is not compiling as the launch."""
        started, compiled = self._clock(), self._runtime.compile_clock.compiled
        yield
        self.launch_seconds += self._clock() - started - (self._runtime.compile_clock.compiled - compiled)
