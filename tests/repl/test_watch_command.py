"""``tiremote watch`` as far as no worker is needed: its arguments, what it tells, and what it calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from recording_session import RecordingSession, compile_error
from tiremote.client import Reload
from tiremote.client.watch import WatchedFile
from tiremote.protocol.errors import CompileError, KernelRuntimeError, SourceFrame
from tiremote.protocol.receipts import Definition, Receipt
from tiremote.repl.command import main
from tiremote.repl.watching import Watching

# Arguments


@pytest.fixture
def sim(tmp_path: Path) -> Path:
    file = tmp_path / "sim.py"
    file.write_text("def step(): pass\n")
    return file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one file to watch"),
        (["tcp://gpu-box:5555"], "name at least one file to watch"),
        (["absent.py"], "there is no file absent.py"),
        (["{sim}", "gpu-box:5555"], "an address begins with a scheme: tcp://gpu-box:5555"),
        (["http://gpu-box", "{sim}"], "'http://gpu-box' is no address of a worker"),
        (["{sim}", "http://gpu-box"], "'http://gpu-box' is no address of a worker"),
        (["tcp://a:1", "ipc://b", "{sim}"], "one worker at a time, not tcp://a:1 and ipc://b"),
        (["{sim}", "--call", "a()", "--call", "b()"], "one --call at a time: --call 'a(); b()'"),
        (["{sim}", "--call", "step("], "--call: SyntaxError: '(' was never closed"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_started(sim: Path, arguments: list[str], message: str) -> None:
    """Missing files, wrong addresses and a broken --call exit with 2 and a reason, and start no worker."""
    done = CliRunner().invoke(main, ["watch", *(each.format(sim=sim) for each in arguments)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("tiremote: ")
    assert message in done.stderr


def test_its_help_names_its_options() -> None:
    """What to name, what to call and which worker to use are found through tiremote watch --help."""
    done = CliRunner().invoke(main, ["watch", "--help"])
    for word in ("[URL] FILE...", "--call", "--once", "--session", "--arch", "--key"):
        assert word in done.output


# Telling and calling


class Watched:
    """A watch of ``sim.py`` whose saves are told by hand."""

    def __init__(self, sim: Path, call: str | None = None) -> None:
        self.session = RecordingSession()
        self.shown: list[str] = []
        self.notes: list[str] = []
        self.file = WatchedFile(sim, "sim", "sim.py")
        self.watching = Watching(
            self.session,  # type: ignore[arg-type]
            [str(sim)],
            call=call,
            write=self.shown.append,
            note=self.notes.append,
            clock=lambda: 0.0,
            time_of_day=lambda: "12:00:00",
        )

    def save(self, text: str, *, saved_with: Reload | None = None) -> None:
        receipt = self.session.compile_and_load(text, "sim")
        ok = Reload(file=self.file, receipt=receipt, files=(self.file,))
        self.watching.reloaded((ok,) if saved_with is None else (ok, saved_with))

    def failed(self, error: CompileError) -> Reload:
        return Reload(file=self.file, error=error, files=(self.file,))


def frame(unit: str, text: str) -> SourceFrame:
    return SourceFrame(unit=unit, version=1, function="step", line=3, column=1, end_column=4, text=text)


def test_a_receipt_is_one_line_with_the_time(sim: Path) -> None:
    """Each save that loads is told with time of day, version and definitions, and counts as success."""
    watched = Watched(sim)
    watched.save("def step(): pass\n")
    assert watched.notes == ["12:00:00 sim version 1: step() (0 ms)"]
    assert watched.watching.after_saves()


def test_an_error_is_told_with_file_line_and_caret_and_nothing_is_called(sim: Path) -> None:
    """A failed load points into the file, and the call does not run on old code."""
    watched = Watched(sim, call="1 / 0")
    watched.watching.reloaded((watched.failed(CompileError("no", frames=(frame("sim", "abc"),))),))
    assert not watched.watching.after_saves()
    assert watched.notes == ["12:00:00 sim.py: CompileError: no\n  sim.py:3:1, in step\n    abc\n    ^^^"]


def test_the_call_runs_with_the_names_of_the_files_and_shows_its_value(sim: Path) -> None:
    """--call may be any Python with np and the files' names, and tells its last value and its duration."""
    watched = Watched(sim, call="[step(n) for n in range(2)]; np.arange(2).sum()")
    watched.save("def step(n): pass\n")
    assert watched.watching.after_saves()
    assert watched.session.calls == [("sim", "step", (0,)), ("sim", "step", (1,))]
    assert watched.shown == ["np.int64(1)"]
    assert watched.notes[-1] == "12:00:00 [step(n) for n in range(2)]; np.arange(2).sum() took 0.0 ms"


def test_the_call_reaches_a_unit_by_its_id(sim: Path) -> None:
    """The call can name a file's unit, for names that several files define."""
    watched = Watched(sim, call="sim['step'](3)")
    watched.save("def step(n): pass\n")
    assert watched.watching.after_saves()
    assert watched.session.calls == [("sim", "step", (3,))]


def test_a_name_of_two_files_is_that_of_the_importing_one_whichever_was_saved_last(sim: Path) -> None:
    """Saving a helper does not make the call use the helper's function of the same name."""
    watched = Watched(sim, call="step()")
    for unit in ("helpers", "sim", "helpers"):
        receipt = watched.session.compile_and_load(f"def step(): pass\n# {len(watched.session.loads)}", unit)
        watched.watching.reloaded((Reload(file=watched.file, receipt=receipt),))
        assert watched.watching.after_saves()
    assert [unit for unit, _, _ in watched.session.calls] == ["helpers", "sim", "sim"]


def test_saves_during_a_call_lead_to_one_more(sim: Path) -> None:
    """Several saves that pile up are followed by a single call, of the newest code."""
    watched = Watched(sim, call="step()")
    for number in range(3):
        watched.save(f"def step(): return {number}\n")
    assert watched.watching.after_saves()
    assert len(watched.session.calls) == 1


def test_nothing_is_called_after_a_save_of_which_a_part_failed(sim: Path) -> None:
    """One failed file of a batch is enough to skip the call, which would mix old and new."""
    watched = Watched(sim, call="step()")
    watched.save("def step(): pass\n", saved_with=watched.failed(CompileError("no")))
    assert not watched.watching.after_saves()
    assert watched.session.calls == []


def test_a_name_that_a_file_no_longer_defines_is_gone(sim: Path) -> None:
    """A call of a removed function fails with NameError and does not run the earlier version."""
    watched = Watched(sim, call="step()")
    watched.save("def step(): pass\n")
    assert watched.watching.after_saves()
    watched.save("def other(): pass\n")
    assert not watched.watching.after_saves()
    assert "NameError: name 'step' is not defined" in watched.notes[-2]


def test_an_error_of_the_call_points_to_the_call_and_into_the_file(sim: Path) -> None:
    """A kernel that fails shows the text of --call and the path and line in the saved file."""
    watched = Watched(sim, call="step()")
    watched.session.call_failures["step"] = KernelRuntimeError("no", frames=(frame("sim", "abc"),))
    watched.save("def step(): pass\n")
    assert not watched.watching.after_saves()
    error = watched.notes[-2].split("\n")
    assert error[0] == "KernelRuntimeError: no"
    assert error[-3:] == [f"  {sim}:3:1, in step", "    abc", "    ^^^"]
    assert "    step()" in error


def test_ctrl_c_ends_the_call_and_not_the_watch(sim: Path) -> None:
    """The first Ctrl-C interrupts what is running and says that another one ends the watch."""
    watched = Watched(sim, call="step()")
    watched.session.call_failures["step"] = KeyboardInterrupt()
    watched.save("def step(): pass\n")
    assert not watched.watching.after_saves()
    assert "12:00:00 Interrupted (again to end the watch)" in watched.notes


@pytest.mark.parametrize(("failures", "status"), [({}, 0), ({"step": compile_error("so")}, 1)])
def test_once_loads_once_and_ends_with_a_status(sim: Path, failures: dict[str, BaseException], status: int) -> None:
    """With --once the exit status is 0 if all files load and 1 if one does not."""
    watched = Watched(sim)
    watched.session.failures = failures
    assert watched.watching.run(once=True) == status


def test_ctrl_c_ends_the_watch_well(sim: Path) -> None:
    """Ending a watch by hand is no failure, but an interrupted --once exits with 130."""

    class Interrupted(Watching):
        def after_saves(self) -> bool:
            raise KeyboardInterrupt

    notes: list[str] = []
    session = RecordingSession()
    watching = Interrupted(session, [str(sim)], call=None, write=notes.append, note=notes.append)  # type: ignore[arg-type]
    assert watching.run() == 0
    assert notes[-1].endswith("the watch has ended")
    assert watching.run(once=True) == 130


def test_constants_are_those_of_the_newest_load(sim: Path) -> None:
    """The call sees a constant's value as last saved, not as it was at the first load."""

    class Constants(RecordingSession):
        def __getitem__(self, kernel_id: str):  # type: ignore[no-untyped-def]
            return {"dt": int(self.sources[kernel_id].removeprefix("dt = "))}

    watched = Watched(sim, call="dt")
    session = Constants()
    watched.watching = Watching(
        session,  # type: ignore[arg-type]
        [str(sim)],
        call="dt",
        write=watched.shown.append,
        note=watched.notes.append,
    )
    for value in (1, 2):
        session.compile_and_load(f"dt = {value}", "sim")
        receipt = Receipt(unit="sim", version=value, definitions=(Definition(name="dt", kind="value"),))
        watched.watching.reloaded((Reload(file=watched.file, receipt=receipt),))
        assert watched.watching.after_saves()
    assert watched.shown == ["1", "2"]
