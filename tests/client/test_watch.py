"""Saved files on the worker: what is sent, when and in what order. No file system events, no waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recording_session import RecordingSession, compile_error
from tiremote.client.watch import Edit, Reload, Watch, WatchedFile, changes, failure_text, signals, watched_files
from tiremote.client.watch.files import Reading, read_source
from tiremote.client.watch.order import imports_of, load_order, related
from tiremote.client.watch.reloader import Reloader
from tiremote.client.watch.settling import DOUBTFUL, QUIET
from tiremote.protocol.errors import CompileError, PayloadTooLarge, SourceFrame, TiremoteError, WorkerUnreachable
from tiremote.protocol.results import Running, SessionStatus, WorkerStatus

SIM, HELPERS = (WatchedFile(Path(f"/nowhere/{unit}.py"), unit, f"{unit}.py") for unit in ("sim", "helpers"))
USES_HELPERS = "from helpers import f\ndef step(): f()\n"

# Files


def test_a_file_is_the_unit_of_its_stem(tmp_path: Path) -> None:
    """A watched sim.py is loaded as the unit sim, and once only, even if two spellings of its path are given."""
    (tmp_path / "sim.py").touch()
    (file,) = watched_files([tmp_path / "sim.py", tmp_path / "." / "sim.py"])
    assert (file.unit, file.path) == ("sim", tmp_path / "sim.py")


def test_two_files_of_one_stem_are_refused_by_name(tmp_path: Path) -> None:
    """Files that would replace each other as one unit are refused, and the message names both."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sim.py").touch()
    with pytest.raises(ValueError, match=r"a/sim\.py and .*b/sim\.py would both be the unit 'sim'"):
        watched_files([f"{tmp_path}/a/sim.py", f"{tmp_path}/b/sim.py"])


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent.py", "there is no file"), (".", "is a folder"), ("gpu-box:5555", "tcp://.*gpu-box:5555")],
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """A missing file, a folder or a mistyped address raises ValueError with the reason, before anything is watched."""
    with pytest.raises(ValueError, match=message):
        watched_files([tmp_path / name])


def test_nothing_to_watch_is_refused() -> None:
    """An empty list of files is an error, not a watch that waits for nothing."""
    with pytest.raises(ValueError, match="at least one file"):
        watched_files([])


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"x = 1\r\n", Reading(text="x = 1\n")),
        (b"\xef\xbb\xbfx = 1\n", Reading(text="x = 1\n")),
        (b"# coding: latin-1\nx = '\xe9'\n", Reading(text="# coding: latin-1\nx = 'é'\n")),
        (b"", Reading(problem="is empty")),
        (b"\n \n", Reading(problem="is empty")),
    ],
)
def test_text_is_read_as_python_reads_it(tmp_path: Path, raw: bytes, expected: Reading) -> None:
    """Line ends, byte order mark and declared encoding count as for Python; blank text is reported as empty."""
    (tmp_path / "sim.py").write_bytes(raw)
    (file,) = watched_files([tmp_path / "sim.py"])
    assert read_source(file) == expected


@pytest.mark.parametrize("line", ["from mlib import bump", "import mlib", "import numpy, mlib as m"])
def test_an_import_of_a_file_that_is_not_watched_is_told_what_to_do(tmp_path: Path, line: str) -> None:
    """Where the worker cannot import what lies beside the watched file, the error says to name that file too."""
    for name in ("sim.py", "mlib.py"):
        (tmp_path / name).write_text("x = 1\n")
    frame = SourceFrame(unit="sim", version=1, function="", line=1, column=1, end_column=5, text=line)
    error = CompileError("No module named 'mlib'", frames=(frame,))
    hint = "mlib.py lies beside it and is not watched: name it too"
    assert hint in failure_text(error, watched_files([tmp_path / "sim.py"]))
    assert hint not in failure_text(error, watched_files([tmp_path / "sim.py", tmp_path / "mlib.py"]))


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"# coding: nothing\nx\n"])
def test_what_is_no_text_says_so(tmp_path: Path, raw: bytes) -> None:
    """A file that cannot be decoded is reported as a problem of that file and raises nothing."""
    (tmp_path / "sim.py").write_bytes(raw)
    (file,) = watched_files([tmp_path / "sim.py"])
    assert "is no text of Python's" in read_source(file).problem


# Order


@pytest.mark.parametrize(
    "text",
    [
        "import helpers",
        "import helpers as h",
        "import numpy, helpers",
        "from helpers import f",
        "from .helpers import f",
        "from . import helpers",
        "def g():\n    import helpers",
        "helpers = import_unit('helpers')",
    ],
)
def test_every_way_to_import_a_watched_file_is_seen(text: str) -> None:
    """Every form of import, also relative, inside a function or by import_unit, counts for the order of loading."""
    assert imports_of(text, {"helpers", "other"}) == {"helpers"}


@pytest.mark.parametrize("text", ["import numpy", "from helpers.inner import f", "helpers = 1", "import (", "\0"])
def test_what_imports_no_watched_file_imports_none(text: str) -> None:
    """Other modules, mere assignments and text that does not parse make no file depend on another."""
    assert imports_of(text, {"helpers"}) == set()


def test_each_unit_comes_after_what_it_imports_else_as_given() -> None:
    """Imported units are loaded first; beyond that the order in which files were given is kept."""
    imports = {"a": {"c"}, "b": set(), "c": {"d"}, "d": set()}
    assert load_order({unit: frozenset(others) for unit, others in imports.items()}) == ("d", "c", "a", "b")


def test_a_circle_of_imports_ends() -> None:
    """Files that import each other are each loaded once, and finding what is related to them ends too."""
    imports = {"a": frozenset({"b"}), "b": frozenset({"a"})}
    assert sorted(load_order(imports)) == ["a", "b"]
    assert related(imports, {"a"}) == {"a", "b"}


def test_related_reaches_both_ways_and_not_to_strangers() -> None:
    """A change concerns what a unit imports and what imports it, and no unit that has to do with neither."""
    imports = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset(), "d": frozenset()}
    assert related(imports, {"b"}) == {"a", "b", "c"}


# When


class Table:
    """Files in memory and a clock. ``history`` are (seconds, file, content; None: gone); each is an event as well."""

    def __init__(self, *history: tuple[float, WatchedFile, str | None]) -> None:
        self.now = 0.0
        self._history = sorted(history, key=lambda change: change[0])
        self.batches: list[tuple[float, dict[str, str]]] = []

    def read(self, file: WatchedFile) -> Reading:
        contents = [text for when, each, text in self._history if each == file and when <= self.now]
        text = contents[-1] if contents else None
        if text is None:
            return Reading(problem="is gone")
        return Reading(text=text) if text else Reading(problem="is empty")

    def wait(self, seconds: float) -> bool:
        # Whatever is written meanwhile wakes nobody: it is found at the next look.
        self.now += seconds
        return False

    def signals(self) -> Iterator[None]:
        for when, _, _ in self._history:
            self.now = max(self.now, when)
            yield None

    def run(self, *files: WatchedFile) -> list[tuple[float, dict[str, str]]]:
        made = changes(files, self.signals(), clock=lambda: self.now, wait=self.wait, read=self.read)
        return [
            (round(self.now, 6), {edit.file.unit: edit.reading.text or edit.reading.problem for edit in batch})
            for batch in made
        ]


def test_a_file_is_handed_out_when_it_has_held_still() -> None:
    """A file is read for loading only once its content has stayed the same for the quiet time."""
    assert Table((0, SIM, "a")).run(SIM) == [(QUIET, {"sim": "a"})]


def test_what_is_written_in_pieces_is_handed_out_once_and_whole() -> None:
    """A slow writer's file is loaded in its final state, because each new piece starts the quiet time again."""
    pieces = [(10 + n * QUIET / 2, SIM, "a = 1\n" * n) for n in range(1, 6)]
    batches = Table((0, SIM, "a"), *pieces).run(SIM)
    assert [batch for _, batch in batches] == [{"sim": "a"}, {"sim": "a = 1\n" * 5}]


@pytest.mark.parametrize("between", [None, "", "b = (", "def b():"])
def test_a_file_that_is_gone_empty_or_half_for_a_moment_is_not_sent_so(between: str | None) -> None:
    """States between two saves are never loaded, since doubtful content has to stay for longer."""
    table = Table((0, SIM, "a"), (10, SIM, between), (10 + DOUBTFUL * 0.9, SIM, "b = (1)"))
    assert [batch for _, batch in table.run(SIM)] == [{"sim": "a"}, {"sim": "b = (1)"}]


def test_a_text_that_stays_broken_is_sent_for_its_error() -> None:
    """Text that still does not parse after the longer wait is sent, so that the user gets to see the error."""
    assert Table((0, SIM, "a"), (10, SIM, "b = (")).run(SIM)[1:] == [(10 + DOUBTFUL, {"sim": "b = ("})]


@pytest.mark.parametrize(("content", "problem"), [(None, "is gone"), ("", "is empty")])
def test_a_file_that_stays_gone_or_empty_is_told_once(content: str | None, problem: str) -> None:
    """A lasting absence is reported after the longer wait, and further events do not repeat the report."""
    table = Table((0, SIM, "a"), (10, SIM, content), (20, SIM, content))
    assert table.run(SIM)[1:] == [(10 + DOUBTFUL, {"sim": problem})]


def test_the_same_content_again_is_not_handed_out() -> None:
    """Saving a file without a change loads nothing, because content is compared and not events."""
    assert len(Table((0, SIM, "a"), (10, SIM, "a"), (20, SIM, "a")).run(SIM)) == 1


def test_what_is_taken_back_at_once_is_not_handed_out() -> None:
    """A change that is undone within the quiet time loads nothing."""
    assert len(Table((0, SIM, "a"), (10, SIM, "b"), (10 + QUIET / 2, SIM, "a")).run(SIM)) == 1


def test_files_that_are_saved_together_come_together() -> None:
    """Saves within one quiet time form one batch, so that a file never meets the old text of another."""
    table = Table((0, SIM, "a"), (0, HELPERS, "a"), (10, SIM, "b"), (10 + QUIET / 2, HELPERS, "b"))
    assert [batch for _, batch in table.run(SIM, HELPERS)[1:]] == [{"sim": "b", "helpers": "b"}]


def test_a_watch_that_is_stopped_hands_out_nothing_more() -> None:
    """A stop during the quiet time discards the change that was waiting for it to end."""
    table = Table((0, SIM, "a"))
    made = changes([SIM], table.signals(), clock=lambda: table.now, wait=lambda _: True, read=table.read)
    assert list(made) == []


# What is sent


class Timers:
    """Timers that go off at once (``impatient``) or never."""

    def __init__(self, impatient: bool = False) -> None:
        self.impatient = impatient

    def __call__(self, seconds: float, action: Callable[[], None]) -> Timers:  # noqa: ARG002 - as threading.Timer
        self._action = action
        return self

    def start(self) -> None:
        if self.impatient:
            self._action()

    def cancel(self) -> None:
        pass


class Dependent(RecordingSession):
    """Refuses a helper without what its user imports, unless both are loaded as one, and the other way round."""

    def compile_and_load(self, source: str, kernel_id: str):  # type: ignore[no-untyped-def]
        texts = {**self.sources, **self.coming, kernel_id: source}
        for name in ("f", "g"):
            if f"import {name}" in texts.get("sim", "") and f"def {name}" not in texts["helpers"]:
                error = compile_error(f"sim imports {name}")
                error.unit = "sim"
                raise error
        return super().compile_and_load(source, kernel_id)

    def compile_and_load_all(self, sources: dict[str, str]):  # type: ignore[no-untyped-def]
        self.coming = sources
        try:
            return super().compile_and_load_all(sources)
        finally:
            self.coming = {}

    coming: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed


class Saves:
    """A reloader of ``sim.py`` and ``helpers.py`` on a session that records."""

    def __init__(self, session: RecordingSession | None = None, *, impatient: bool = False) -> None:
        self.session = session or RecordingSession()
        self.notes: list[str] = []
        self.reloader = Reloader(
            self.session,  # type: ignore[arg-type]
            [SIM, HELPERS],
            note=self.notes.append,
            clock=lambda: 0.0,
            timer=Timers(impatient),
        )

    def save(self, **texts: str) -> dict[str, Reload]:
        files = {file.unit: file for file in (SIM, HELPERS)}
        batch = [Edit(files[unit], Reading(text=text)) for unit, text in texts.items()]
        return {each.file.unit: each for each in self.reloader.load(batch)}


def test_what_is_imported_is_loaded_first() -> None:
    """In one batch a helper is loaded before the file that imports it, even if that was given first."""
    saves = Saves()
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    assert saves.session.loaded() == ["helpers", "sim"]


def test_only_what_changed_is_sent() -> None:
    """After a save of the helper alone, the file that imports it is neither sent nor reported."""
    saves = Saves()
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    outcome = saves.save(helpers="def f(): return 1\n")
    assert saves.session.loaded()[2:] == ["helpers"]
    assert list(outcome) == ["helpers"]


def test_a_receipt_is_told_in_one_line() -> None:
    """A successful load reads as unit, version, what it defines and how long it took."""
    assert str(Saves().save(helpers="def f(): pass\n")["helpers"]) == "helpers version 1: f() (0 ms)"


def test_a_file_waits_for_what_it_imports_and_is_sent_when_that_is_loaded() -> None:
    """While its helper has never been loaded a file is held back, and it follows without a save of its own."""
    saves = Saves()
    saves.session.failures["broken"] = compile_error("so")
    first = saves.save(sim=USES_HELPERS, helpers="broken")
    assert str(first["sim"]) == "sim.py: it imports helpers.py, not loaded so far"
    assert saves.session.loaded() == []
    assert saves.save(helpers="def f(): pass\n")["sim"].ok
    assert saves.session.loaded() == ["helpers", "sim"]


def test_a_broken_helper_does_not_keep_others_from_their_old_one() -> None:
    """A helper that fails after it was once loaded stays usable in its old version by files that import it."""
    saves = Saves()
    saves.session.failures["broken"] = compile_error("so")
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    assert not saves.save(helpers="broken")["helpers"].ok
    assert saves.save(sim=USES_HELPERS + "x = 1\n")["sim"].ok


def test_what_failed_for_an_old_helper_is_tried_with_the_new_one() -> None:
    """A file that failed is loaded again, without a save of its own, once its helper changes."""
    saves = Saves()
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    saves.session.failures["import g"] = compile_error("helpers has no g")
    assert not saves.save(sim="from helpers import g\n")["sim"].ok
    saves.session.failures.clear()
    assert list(saves.save(helpers="def g(): pass\n")) == ["helpers", "sim"]


def test_what_is_saved_together_is_loaded_as_one() -> None:
    """Files of one batch go in one request, imports first; a single file goes as before."""
    saves = Saves()
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    saves.save(helpers="def f(): return 1\n")
    assert saves.session.together == [("helpers", "sim")]
    assert saves.session.loaded() == ["helpers", "sim", "helpers"]


def test_a_file_at_fault_does_not_keep_another_from_the_worker() -> None:
    """Of two files that are saved together the one without the mistake is loaded, and the other shows its error."""
    saves = Saves()
    saves.session.failures["broken"] = compile_error("so")
    outcome = saves.save(sim="broken", helpers="def f(): pass\n")
    assert outcome["helpers"].ok
    assert str(outcome["sim"]) == "sim.py: CompileError: so"
    assert saves.session.loaded() == ["helpers"]


def test_of_files_that_need_one_another_the_one_at_fault_is_told() -> None:
    """A helper that would go only with a broken user is said to go with that; the old code of both goes on."""
    saves = Saves(Dependent())
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    saves.session.failures["broken"] = compile_error("so")
    outcome = saves.save(sim="from helpers import g\nbroken\n", helpers="def g(): pass\n")
    assert str(outcome["sim"]) == "sim.py: CompileError: so"
    assert str(outcome["helpers"]) == "helpers.py: it goes with sim.py, which was saved with it and does not load"
    assert saves.session.sources == {"helpers": "def f(): pass\n", "sim": USES_HELPERS}


def test_of_a_broken_helper_its_user_is_told() -> None:
    """A file that needs what its helper has only in a text that does not load is said to go with that helper."""
    saves = Saves(Dependent())
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    saves.session.failures["broken"] = compile_error("so")
    outcome = saves.save(sim="from helpers import g\n", helpers="def g(): pass\nbroken\n")
    assert str(outcome["helpers"]) == "helpers.py: CompileError: so"
    assert str(outcome["sim"]) == "sim.py: it goes with helpers.py, which was saved with it and does not load"


def test_what_does_not_go_as_one_is_tried_one_after_another() -> None:
    """Where no file is at fault, each is tried alone, a refused helper again after the file that used its old names."""

    class Small(Dependent):
        def compile_and_load_all(self, sources: dict[str, str]):  # type: ignore[no-untyped-def]
            if "import helpers\n" in sources.values():
                raise PayloadTooLarge("too much at once")
            return super().compile_and_load_all(sources)

    saves = Saves(Small())
    saves.save(sim=USES_HELPERS, helpers="def f(): pass\n")
    outcome = saves.save(sim="import helpers\n", helpers="def g(): pass\n")
    assert {unit: each.ok for unit, each in outcome.items()} == {"helpers": True, "sim": True}
    assert saves.session.loaded()[2:] == ["sim", "helpers"]


def test_nothing_more_is_sent_to_a_worker_that_is_gone() -> None:
    """Files that did not reach the worker together are not tried one by one: each attempt would wait as long."""
    saves = Saves()
    saves.session.failures["away"] = WorkerUnreachable("gone")
    outcome = saves.save(sim="x = 1\n", helpers="away = 1\n")
    assert [type(each.error) for each in outcome.values()] == [WorkerUnreachable] * 2
    assert saves.session.loaded() == []


def test_what_never_reached_the_worker_goes_with_the_next_save_of_any_file() -> None:
    """A load lost to an unreachable worker is repeated at the next save, even that of an unrelated file."""
    saves = Saves()
    saves.session.failures["away"] = WorkerUnreachable("gone")
    assert not saves.save(sim="away = 1\n")["sim"].ok
    saves.session.failures.clear()
    assert list(saves.save(helpers="def f(): pass\n")) == ["sim", "helpers"]


def test_a_file_that_is_gone_leaves_what_was_loaded() -> None:
    """Deleting a file unloads nothing on the worker, and the message says so."""
    saves = Saves()
    saves.save(sim="def step(): pass\n")
    (outcome,) = saves.reloader.load([Edit(SIM, Reading(problem="is gone"))])
    assert str(outcome) == "sim.py: the file is gone; what was loaded from it stays"
    assert "sim" in saves.session


def test_an_error_points_into_the_files() -> None:
    """Frames of watched units show file, line and caret; those of other units are named by unit and version."""

    def frame(unit: str, text: str) -> SourceFrame:
        return SourceFrame(unit=unit, version=2, function="step", line=3, column=5, end_column=8, text=text)

    saves = Saves()
    saves.session.failures["f"] = CompileError("no", frames=(frame("sim", "    abc"), frame("other", "def")))
    assert str(saves.save(helpers="f")["helpers"]) == (
        "helpers.py: CompileError: no\n"
        "  sim.py:3:5, in step\n    abc\n    ^^^\n"
        '  in "other" version 2, line 3, in step\n    def\n       ^'
    )


@pytest.mark.parametrize(
    ("running", "note"),
    [
        (
            Running(request=1, op="run", target="run sim.step", seconds=12.0),
            "waits its turn behind run sim.step (12.0 s so far)",
        ),
        (Running(request=1, op="compile", target="compile sim", seconds=1.0), "is being compiled"),
        (None, "is being compiled"),
    ],
)
def test_a_load_that_takes_long_says_what_it_waits_for(running: Running | None, note: str) -> None:
    """A slow load tells whether another request runs before it or it is itself being compiled."""

    class Busy(RecordingSession):
        def status(self) -> WorkerStatus:
            session = SessionStatus(session="s1", state="busy", generation=1, clients=1, queued=1, running=running)
            return WorkerStatus(
                pid=7,
                uptime=1.0,
                worker_version="0",
                engine=None,
                sessions=1,
                spares=0,
                requests=1,
                dropped=0,
                crashes=0,
                session=session,
            )

    saves = Saves(Busy(), impatient=True)
    saves.save(sim="x = 1\n")
    assert saves.notes == [f"sim.py {note} ..."]


def test_a_load_that_takes_long_on_a_worker_that_is_gone_says_nothing_yet() -> None:
    """If the worker cannot be asked what a slow load waits for, no note is written and nothing fails."""

    class Away(RecordingSession):
        def status(self) -> WorkerStatus:
            raise TiremoteError("gone")

    saves = Saves(Away(), impatient=True)
    saves.save(sim="x = 1\n")
    assert saves.notes == []


# The whole, with real files


class Told:
    """What a watch told, by waiting for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._all: list[tuple[Reload, ...]] = []

    def __call__(self, reloads: tuple[Reload, ...]) -> None:
        with self._changed:
            self._all.append(reloads)
            self._changed.notify_all()

    def number(self, count: int) -> tuple[Reload, ...]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._all) >= count, 20), "nothing was told"
            return self._all[count - 1]


def test_a_watch_loads_at_once_and_after_each_save_until_it_is_stopped(tmp_path: Path) -> None:
    """Saves in place and by rename are loaded, and leaving the watch leaves no thread of it."""
    file, told, session = tmp_path / "sim.py", Told(), RecordingSession()
    file.write_text("a = 1\n")
    with Watch(session, file, on_reload=told) as watch:  # type: ignore[arg-type]
        assert session.loads == [("sim", "a = 1")]
        file.write_text("a = 2\n")
        (reload,) = told.number(2)
        assert reload.receipt is not None
        assert reload.receipt.version == 2
        (tmp_path / "new").write_text("a = 3\n")
        os.replace(tmp_path / "new", file)
        told.number(3)
    assert [text for _, text in session.loads] == ["a = 1", "a = 2", "a = 3"]
    assert [each.unit for each in watch.files] == ["sim"]
    assert not [thread for thread in threading.enumerate() if thread.name == "tiremote-watch"]


def test_a_handler_that_fails_does_not_end_the_watch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An exception in on_reload is logged, and later saves still reach the handler."""
    file, told = tmp_path / "sim.py", Told()
    file.write_text("a = 1\n")

    def fail(reloads: tuple[Reload, ...]) -> None:
        told(reloads)
        raise LookupError("mine")

    with Watch(RecordingSession(), file, on_reload=fail):  # type: ignore[arg-type]
        file.write_text("a = 2\n")
        told.number(2)
    assert "the handler of reloads failed" in caplog.text


def test_a_watch_can_be_stopped_by_its_handler(tmp_path: Path) -> None:
    """Calling stop inside on_reload does not wait for itself, and a second stop does no harm."""
    file, made = tmp_path / "sim.py", []
    stopped = threading.Event()
    file.write_text("a = 1\n")

    def stop(_: tuple[Reload, ...]) -> None:
        if made:
            made[0].stop()
            stopped.set()

    made.append(Watch(RecordingSession(), file, on_reload=stop))  # type: ignore[arg-type]
    file.write_text("a = 2\n")
    assert stopped.wait(20)
    made[0].stop()


def test_a_watch_ends_with_its_session(tmp_path: Path) -> None:
    """Closing the session ends the thread of the watch, without a call of stop."""
    file, session = tmp_path / "sim.py", RecordingSession()
    file.write_text("a = 1\n")
    watch = Watch(session, file, on_reload=None)  # type: ignore[arg-type]
    session.closed = True
    watch._thread.join(20)
    assert not watch._thread.is_alive()


def test_links_and_folders_that_are_replaced_are_followed(tmp_path: Path) -> None:
    """A change is noticed though the watched path itself stays: a link set anew, or a folder put in its place."""
    told, session = Told(), RecordingSession()
    for version in "ab":
        (tmp_path / version).mkdir()
        (tmp_path / version / "sim.py").write_text(f"{version} = 1\n")
    (tmp_path / "now").symlink_to("a")
    (tmp_path / "sim.py").symlink_to("now/sim.py")
    with Watch(session, tmp_path / "sim.py", on_reload=told):  # type: ignore[arg-type]
        (tmp_path / "new").symlink_to("b")
        os.replace(tmp_path / "new", tmp_path / "now")
        told.number(2)
        (tmp_path / "b").rename(tmp_path / "old")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "sim.py").write_text("c = 1\n")
        told.number(3)
    assert [text for _, text in session.loads] == ["a = 1", "b = 1", "c = 1"]


def test_nothing_of_watchfiles_is_loaded_until_something_is_watched() -> None:
    """Importing the client or the command does not pay for the library that only a watch needs."""
    code = "import sys, tiremote.client, tiremote.repl.watching; print({'watchfiles', 'anyio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"


def test_files_whose_folder_is_gone_are_still_looked_for(tmp_path: Path) -> None:
    """Removing a watched file's folder keeps the signals coming and raises nothing, until the watch is stopped."""
    folder, stop = tmp_path / "folder", threading.Event()
    folder.mkdir()
    (folder / "sim.py").touch()
    made = signals(watched_files([folder / "sim.py"]), stop)
    next(made)
    (folder / "sim.py").unlink()
    folder.rmdir()
    next(made)
    stop.set()
    assert list(made) == []
