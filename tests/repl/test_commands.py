"""The commands at the prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recording_session import RecordingSession
from tiremote.client import RemoteArray, RemoteField
from tiremote.client.releases import Releases
from tiremote.protocol.errors import AsOf
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.results import SessionStatus
from tiremote.protocol.values import Handle, Name
from tiremote.repl.cells import Cell, read_command
from tiremote.repl.commands import CommandError, Commands, Quit, read_slice
from tiremote.repl.evaluate import Evaluator


class FakeExchange:
    """Nothing is asked of it."""

    def __init__(self) -> None:
        self.releases = Releases()


class Prompt:
    """Commands over a recording session; ``said`` is what they printed."""

    def __init__(self) -> None:
        self.gpu = RecordingSession()
        self.said: list[str] = []
        self.evaluator = Evaluator(self.gpu, show=lambda _: None, display=lambda _: None)  # type: ignore[arg-type]
        self.commands = Commands(self.evaluator, self.said.append)

    def run(self, line: str) -> str:
        self.said.clear()
        self.commands.run(read_command(line))
        return "\n".join(self.said)


@pytest.fixture
def prompt() -> Prompt:
    return Prompt()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(":kernals", ":kernels"), (":array", ":arrays"), (":fetsh x", ":fetch"), (":exit", ":quit"), (":zzz", ":help")],
)
def test_an_unknown_command_suggests_the_nearest(prompt: Prompt, typed: str, meant: str) -> None:
    """A mistyped command is answered with the one that was probably meant, or else with :help."""
    with pytest.raises(CommandError, match=meant):
        prompt.run(typed)


def test_help_names_every_command(prompt: Prompt) -> None:
    """A command cannot be added without :help listing it."""
    text = prompt.run(":help")
    assert all(f":{name}" in text for name in prompt.commands.names)


def test_kernels_are_listed_with_versions(prompt: Prompt) -> None:
    """:kernels leaves out constants that went along, and says what to do while there is nothing to list."""
    assert prompt.run(":kernels") == "No kernel is loaded: type one."
    prompt.evaluator.run(Cell("n = 1\n@ti.kernel\ndef k():\n    a = n\n"))
    assert prompt.run(":kernels").split("\n") == ["unit  version  defines", "k     1        k()"]


def test_no_array_tells_how_to_make_one(prompt: Prompt) -> None:
    """While there are no arrays, :arrays shows a line that can be typed to make one."""
    assert "ti.ndarray(ti.f32, shape=10)" in prompt.run(":arrays")


def test_a_look_at_the_arrays_takes_no_handle_of_a_units_field(prompt: Prompt) -> None:
    """The worker keeps what it gave a handle of: the field would outlive its unit."""
    meta = {"dtype": "f32", "shape": (4,)}
    field = RemoteField(None, Name(unit="u", name="f"), "field", meta)  # type: ignore[arg-type]
    prompt.evaluator.names.values["f"] = field
    name, kind, *_, place = prompt.run(":arrays").split("\n")[1].split()
    assert (name, kind, place) == ("f", "field", "u.f")


def test_an_array_that_its_engine_took_along_is_marked(prompt: Prompt) -> None:
    """A field of a unit is there again, with zeros."""
    meta = {"dtype": "f32", "shape": (4,)}
    gone = RemoteArray(FakeExchange(), Handle(kind="ndarray", id="s.1.1"), "ndarray", meta)  # type: ignore[arg-type]
    prompt.evaluator.names.values["x"] = gone
    prompt.evaluator.names.values["f"] = RemoteField(None, Name(unit="f", name="f"), "field", meta)  # type: ignore[arg-type]
    _, field, array = prompt.run(":arrays").split("\n")
    assert field.split() == ["f", "field", "f32", "(4,)", "16", "bytes", "f.f"]
    assert array.endswith("lost: make it again")


def test_help_tells_more_about_one_command(prompt: Prompt) -> None:
    """With or without its colon; a narrow terminal shows all of it in 80 columns."""
    assert prompt.run(":help fetch").startswith(":fetch NAME [SLICE] [FILE]: numbers of an array")
    assert prompt.run(":help :fetch") == prompt.run(":help fetch")
    with pytest.raises(CommandError, match="did you mean :fetch"):
        prompt.run(":help fetsh")
    assert max(map(len, prompt.run(":help").split("\n"))) < 80


def test_fetch_of_an_unknown_array_is_refused_by_name(prompt: Prompt) -> None:
    """:fetch says which array is missing, or that none was named."""
    with pytest.raises(CommandError, match="there is no array 'x'"):
        prompt.run(":fetch x")
    with pytest.raises(CommandError, match="say which array"):
        prompt.run(":fetch")


def test_cleanup_drops_one_unit_and_its_names(prompt: Prompt) -> None:
    """:cleanup removes a unit from the worker and its name from the prompt, and nothing else."""
    prompt.evaluator.run(Cell("@ti.kernel\ndef a(): pass\n\n@ti.kernel\ndef b(): pass\n"))
    assert prompt.run(":cleanup a") == "dropped a, 0 bytes came back"
    assert list(prompt.gpu.sources) == ["b"]
    assert "a" not in prompt.evaluator.names.values
    with pytest.raises(CommandError, match="nothing is called 'a'"):
        prompt.run(":cleanup a")


def test_cleanup_of_everything_has_to_be_said(prompt: Prompt) -> None:
    """A bare :cleanup drops nothing, so that no session is emptied by accident."""
    prompt.evaluator.run(Cell("@ti.kernel\ndef a(): pass\n"))
    with pytest.raises(CommandError, match="or all"):
        prompt.run(":cleanup")
    assert prompt.run(":cleanup all").startswith("dropped everything: 1 units")
    assert "a" not in prompt.evaluator.names.values


def test_the_tree_of_what_is_on_the_worker_is_shown(prompt: Prompt) -> None:
    """:ast finds the unit of a name, and says what it needs where there is none."""
    prompt.evaluator.run(Cell("@ti.kernel\ndef k():\n    pass\n"))
    assert prompt.run(":ast k").strip() == "the tree of k.k"
    for line, words in ((":ast", ":ast KERNEL"), (":ast nope", "nothing on the worker is called 'nope'")):
        with pytest.raises(CommandError, match=words):
            prompt.run(line)


def test_explain_shows_what_the_session_says(prompt: Prompt) -> None:
    """:explain is gpu.explain_crash()."""
    assert prompt.run(":explain").strip() == "an explanation"


def test_status_is_readable(prompt: Prompt) -> None:
    """:status tells worker, version, age and device in plain words."""
    text = prompt.run(":status")
    assert "worker    tcp://recorded:1, pid 7, tiremote 0, up 1 min 1 s" in text
    assert "engine    taichi 1.7.4 on cpu (a device)" in text


def test_reconnect_leaves_a_session_that_is_there(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one that the worker does not know any more is opened anew."""
    status = prompt.gpu.status()
    session = SessionStatus(session="s1", state="idle", generation=1, clients=1, queued=0)
    monkeypatch.setattr(prompt.gpu, "status", lambda: replace(status, session=session))
    assert prompt.run(":reconnect") == "session s1 on tcp://recorded:1 is there: nothing is lost"
    assert not prompt.gpu.closed
    monkeypatch.setattr(prompt.gpu, "status", lambda: status)
    prompt.run(":reconnect")
    assert prompt.gpu.closed
    assert prompt.commands._context.gpu is not prompt.gpu


def test_quit_leaves(prompt: Prompt) -> None:
    """:quit ends the prompt from within."""
    with pytest.raises(Quit):
        prompt.run(":quit")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("3", 3),
        ("-1", -1),
        ("2:4", slice(2, 4)),
        ("[2:4]", slice(2, 4)),
        ("::2", slice(None, None, 2)),
        ("1,:", (1, slice(None))),
        ("...,-1", (..., -1)),
    ],
)
def test_slices_are_written_as_in_numpy(text: str, index: Any) -> None:
    """Indices, ranges, steps, axes and the ellipsis mean at the prompt what they mean in NumPy."""
    assert read_slice(text) == index


@pytest.mark.parametrize("text", ["a", "1.5", "2:4]+[", "f()", "True", "'a'", "[", "1:b"])
def test_what_is_no_slice_is_refused(text: str) -> None:
    """Only literal indices are taken: names, calls and other values are refused and never evaluated."""
    with pytest.raises(CommandError, match="is no slice"):
        read_slice(text)


KERNEL = "@ti.kernel\ndef add(x: ti.types.ndarray(), n: ti.f32):\n    x[0] += n\n"


@pytest.mark.parametrize(
    ("typed", "args", "versions"),
    [
        (":compare add(7, 2.5 * two)", (7, 5.0), (None, None)),
        (":compare add((1, 2), n=two) 1", ((1, 2),), (1, None)),
        (":compare add(7) 1 3", (7,), (1, 3)),
        (":compare add.grad(7)", (7,), (None, None)),
    ],
)
def test_compare_takes_a_call_and_versions(
    prompt: Prompt, typed: str, args: tuple[Any, ...], versions: tuple[int | None, int | None]
) -> None:
    """Arguments are what they are at the prompt; the unit is the one that defines the name."""
    prompt.evaluator.run(Cell(KERNEL))
    prompt.evaluator.run(Cell("two = 2"))
    assert prompt.run(typed) == "a comparison"
    ((unit, name, *given), how) = prompt.gpu.comparisons[-1]
    assert (unit, name, tuple(given)) == (prompt.gpu.loaded()[0], typed.split("(")[0].split()[1], args)
    assert ((how["before"], how["after"]), how["kwargs"]) == (versions, {"n": 2} if "n=" in typed else {})


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (":compare", "say what to call"),
        (":compare add", "say what to call"),
        (":compare add(7) x", "say what to call"),
        (":compare add(7) 1 2 3", "say what to call"),
        (":compare len([])", "len is not on the worker"),
        (":compare add(nothing)", "nothing: NameError"),
    ],
)
def test_compare_says_what_it_takes(prompt: Prompt, typed: str, words: str) -> None:
    """What is no call of something on the worker is told in one line, and nothing is sent."""
    prompt.evaluator.run(Cell(KERNEL))
    with pytest.raises(CommandError, match=words):
        prompt.run(typed)
    assert prompt.gpu.comparisons == []


@pytest.mark.parametrize(
    ("typed", "how"), [(":bench add(7, n=two)", {}), (":bench add(7, n=two) 500", {"repeats": 500})]
)
def test_bench_takes_a_call_and_how_often(prompt: Prompt, typed: str, how: dict[str, int]) -> None:
    """What it tells is shown, however far apart the times are."""
    prompt.evaluator.run(Cell(KERNEL))
    prompt.evaluator.run(Cell("two = 2"))
    assert prompt.run(typed) == "a benchmark"
    ((callee, args, given),) = prompt.gpu.benches
    assert (callee is prompt.evaluator.names.values["add"], args) == (True, (7,))
    assert given == {"kwargs": {"n": 2}, "max_spread": None, **how}


@pytest.mark.parametrize("typed", [":bench", ":bench add", ":bench add(7) x", ":bench add(7) 1 2", ":bench 5"])
def test_bench_says_what_it_takes(prompt: Prompt, typed: str) -> None:
    """In one line, and nothing is sent."""
    prompt.evaluator.run(Cell(KERNEL))
    with pytest.raises(CommandError, match="say what to call, and how often: :bench"):
        prompt.run(typed)
    assert prompt.gpu.benches == []


@pytest.mark.parametrize(
    ("typed", "asked", "told"),
    [
        (":snapshot", {}, []),
        (":snapshot 2.5", {"every_seconds": 2.5}, ["  from now on by itself after every 2.5 s"]),
        (":snapshot every 5 min", {"every_seconds": 300.0}, ["  from now on by itself after every 300 s"]),
        (":snapshot every 100 runs", {"every_runs": 100}, ["  from now on by itself after every 100 requests"]),
        (":snapshot 0", {"every_seconds": 0.0}, []),
        (":snapshot off", {"every_seconds": 0.0, "every_runs": 0}, []),
    ],
)
def test_a_snapshot_is_made_and_planned(prompt: Prompt, typed: str, asked: dict[str, Any], told: list[str]) -> None:
    """What was copied, what not and why, and when that is done again."""
    assert prompt.run(typed).split("\n") == ["1 copied, 40 bytes: x", "  not sim.cells: it is sparse", *told]
    assert prompt.gpu.snapshots == [asked]


@pytest.mark.parametrize(
    "rest", ["now", "every", "every 60", "-1", "nan", "every 1.5 runs", "every x s", "every 3 days"]
)
def test_a_plan_that_is_none_is_refused_with_those_that_are(prompt: Prompt, rest: str) -> None:
    """Nothing is copied then."""
    with pytest.raises(CommandError, match="a number of seconds, every 5 min, every 100 runs, or off"):
        prompt.run(f":snapshot {rest}")
    assert prompt.gpu.snapshots == []


def test_arrays_that_were_put_back_say_from_when_they_are(prompt: Prompt) -> None:
    """Those under a handle and those of a unit; while there are none, there is no column for it."""
    meta = {"dtype": "f32", "shape": (4,)}
    names = prompt.evaluator.names
    handle = Handle(kind="ndarray", id="s.1.1")
    prompt.gpu.arrays = (ArrayHolding(handle=handle),)
    names.values["x"] = RemoteArray(FakeExchange(), handle, "ndarray", meta)  # type: ignore[arg-type]
    names.values["f"] = RemoteField(None, Name(unit="u", name="f"), "field", meta)  # type: ignore[arg-type]
    assert "put back" not in prompt.run(":arrays")
    prompt.gpu.as_of = (
        AsOf(name="x", target="s.1.1", request=1, op="put", seconds=2.0),
        AsOf(name="u.f", target="u.f", request=None, op="snapshot", seconds=90.0),
    )
    _, f, x = prompt.run(":arrays").split("\n")
    assert f.endswith("as of 1 min 30 s before (snapshot)")
    assert x.endswith("as of 2.00 s before (put)")
