"""A crashed request run again in a debug engine, beside its session: what that engine gets, and what is told."""

from __future__ import annotations

from typing import Any

import pytest

from front_bench import FrontBench
from tiremote.protocol.errors import (
    KernelRuntimeError,
    OutOfMemory,
    Refused,
    SourceFrame,
    TiremoteError,
)
from tiremote.protocol.messages import (
    Bye,
    Cancel,
    Compile,
    Event,
    ExplainCrash,
    Fetch,
    Hello,
    Interrupt,
    Ping,
    Request,
    Requests,
    Status,
)
from tiremote.protocol.values import Handle, Name
from tiremote.worker.front.settings import Settings

X = Handle(kind="ndarray", id="s.1.1")
OUTSIDE = KernelRuntimeError("index (100000000) is out of bounds: the shape is (10)", type="AssertionError")
FRAME = SourceFrame(unit="sim", version=1, function="far", line=4, column=5, end_column=9, text="    x[i] = 1")


class Crashed:
    """A session with a unit and an array of which there is a copy, whose engine died when a request ran with it."""

    def __init__(self, bench: FrontBench, **hello: Any) -> None:
        self.bench = bench
        self.token = bench.hello(**hello)
        bench.load_unit(self.token, source="first text")
        bench.put_array(self.token, b"then", label="x")
        self.lost = bench.run(self.token, "far", args=(X,))
        self.crash()

    def crash(self, returncode: int = -11) -> None:
        """The engine dies with the request that it runs; the next one gets everything back."""
        self.bench.die(self.bench.work[-1][0], returncode)
        self.restore()

    def restore(self) -> None:
        """The engine that was spoken to last gets everything back."""
        self.bench.loaded(self.bench.loads[-1])
        while self.bench.put_backs and self.open_chores():
            self.bench.put_back(self.bench.put_backs[-1])

    def open_chores(self) -> bool:
        engine = self.bench.front.scheduler.pool.engines.get(self.bench.put_backs[-1][0])
        return engine is not None and bool(engine.chores)

    def explain(self, identity: bytes = b"laptop", **fields: Any) -> Request:
        """Asks, without waiting for anything."""
        known = {"id": f"explain-{self.bench.now}", "token": self.token, **fields}
        return self.bench.ask(ExplainCrash(**known), identity)

    def explained(self, error: TiremoteError | None = None) -> Any:
        """Has it run again, with that error, and gives what is told."""
        request = self.explain()
        self.restore()
        if error is None:
            self.bench.done(self.bench.work[-1])
        else:
            self.bench.failed(self.bench.work[-1], error)
        return self.bench.result(request)


@pytest.fixture
def crashed(bench: FrontBench) -> Crashed:
    """A session whose engine has died, and been replaced."""
    return Crashed(bench)


def test_without_a_crash_there_is_nothing_to_explain(bench: FrontBench) -> None:
    """Not before one, and not after an interrupt that cost the engine."""
    token = bench.hello()
    assert bench.error(bench.ask(ExplainCrash(id="a", token=token))).code == Refused.code
    running = bench.run(token)
    bench.ask(Interrupt(id="i", token=token, request=running.id))
    bench.die(1, -9)
    assert bench.error(running).data.get("explainable") is None
    assert bench.error(bench.ask(ExplainCrash(id="b", token=token))).code == Refused.code


def test_the_error_of_a_crash_says_that_it_can_be_explained(crashed: Crashed) -> None:
    """Where its request is kept."""
    assert crashed.bench.error(crashed.lost).data["explainable"] is True


def test_a_debug_engine_gets_the_units_the_copies_and_the_request(crashed: Crashed) -> None:
    """Under the session's id, so that handles mean the same; it is killed when it has answered."""
    bench = crashed.bench
    before = len(bench.work)
    request = crashed.explain()
    number, opened = bench.opens[-1]
    assert opened.session == bench.opens[0][1].session
    assert (opened.options["debug"], opened.options["check_out_of_bound"], opened.last_words) == (True, True, True)
    assert (bench.loads[-1][0], bench.loads[-1][1].source) == (number, "first text")
    crashed.restore()
    assert (bench.put_backs[-1][0], bench.put_back_bytes[-1]) == (number, [b"then"])
    assert len(bench.work) == before + 1
    assert (bench.work[-1][0], bench.work[-1][1].header) == (number, bench.work[before - 1][1].header)
    bench.failed(bench.work[-1], OUTSIDE)
    assert bench.result(request)["kind"] == "out of bounds"
    assert number in bench.killed


def test_an_index_out_of_bounds_is_told_with_its_numbers(crashed: Crashed) -> None:
    """Where it is, which it was, of what shape; of which request, and as of when the arrays were."""
    crashed.bench.now += 5.0
    told = crashed.explained(KernelRuntimeError(OUTSIDE.message, type="AssertionError", frames=(FRAME,)))
    assert (told["kind"], told["index"], told["bounds"], told["first"]) == ("out of bounds", [100_000_000], [10], [])
    assert [frame["line"] for frame in told["frames"]] == [4]
    assert (told["request"], told["target"], told["crash"]) == (
        crashed.lost.id,
        "run far",
        "the engine died of SIGSEGV",
    )
    assert [(one["name"], one["op"], one["seconds"]) for one in told["as_of"]] == [("x", "put", 0.0)]
    assert (told["anew"], told["missing"]) == ([], [])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, "ran to its end"),
        (KernelRuntimeError("bad 9", type="AssertionError"), "assertion"),
        (KernelRuntimeError("ZeroDivisionError: division by zero", type="ZeroDivisionError"), "error"),
        (OutOfMemory("no room"), "error"),
    ],
)
def test_whatever_it_comes_to_is_told(crashed: Crashed, error: TiremoteError | None, kind: str) -> None:
    """Also that nothing was found."""
    assert crashed.explained(error)["kind"] == kind


def test_it_may_crash_again(crashed: Crashed) -> None:
    """Then the signal is told, and where Python was when it came."""
    bench = crashed.bench
    request = crashed.explain()
    crashed.restore()
    number, work = bench.work[-1]
    words = (
        b"Fatal Python error: Segmentation fault\n\n"
        b"Thread 0x00007f01 (most recent call first):\n"
        b'  File "/usr/lib/python3.11/threading.py", line 320 in wait\n'
        b"Current thread 0x00007f00 (most recent call first):\n"
        b'  File "/site/service.py", line 200 in _run\n'
        b'  File "<unit sim v1 0123456789ab 3>", line 1 in far\n'
        b'  File "<unit sim v1 0123456789ab 3>", line 7 in drive\n'
        b'  File "<unit other v1 0123456789ab 3>", line 7 in elsewhere\n'
    )
    for piece in (words[:100], words[100:]):
        bench.front.on_output(number, "stderr", work.key, piece, bench.now)
    bench.die(number, -11)
    told = bench.result(request)
    assert (told["kind"], told["signal"]) == ("crashed again", "SIGSEGV")
    assert "SIGSEGV" in told["message"]
    places = [(frame["function"], frame["line"], frame["text"]) for frame in told["frames"]]
    assert places == [("drive", 7, ""), ("far", 1, "first text")]


def test_a_text_may_end_the_engine_while_it_is_loaded(bench: FrontBench) -> None:
    """It is loaded again, and told by its own lines, also where the worker had to name it."""
    token = bench.hello()
    lost = bench.ask(Compile(id="load", token=token, source="import os\nos.abort()\n"))
    bench.die(1, -6)
    assert bench.error(lost).data["explainable"] is True
    request = bench.ask(ExplainCrash(id="e", token=token))
    number, _ = bench.work[-1]
    words = b'Current thread 0x0f (most recent call first):\n  File "<unit kernel_0 v1 0123ab 3>", line 2 in <module>\n'
    bench.front.on_output(number, "stderr", 0, words, bench.now)
    bench.die(number, -6)
    told = bench.result(request)
    frames = [(one["unit"], one["function"], one["line"], one["text"]) for one in told["frames"]]
    assert frames == [("kernel_0", "", 2, "os.abort()")]


def test_a_device_that_is_lost_again_is_told(crashed: Crashed) -> None:
    """It counts as a crash."""
    bench = crashed.bench
    request = crashed.explain()
    crashed.restore()
    bench.failed(bench.work[-1], OUTSIDE, poisoned="lost its device (CUDA_ERROR_ILLEGAL_ADDRESS)")
    told = bench.result(request)
    assert told["kind"] == "crashed again"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in told["message"]


def test_the_session_goes_on_meanwhile(crashed: Crashed) -> None:
    """Its runs are answered by its own engine; what the debug engine does and prints is nobody's."""
    bench = crashed.bench
    request = crashed.explain()
    crashed.restore()
    explaining = bench.work[-1]
    assert bench.result(bench.ask(Ping(id="p", token=crashed.token, pending=(request.id,)))) == {"missing": []}
    run = bench.run(crashed.token, events=True)
    assert bench.work[-1][0] != explaining[0]
    for key in (explaining[1].key, 0):
        bench.front.on_output(explaining[0], "stdout", key, b"printed again\n", bench.now)
    bench.done(bench.work[-1], value=3)
    assert bench.result(run)["value"] == 3
    assert bench.result(bench.ask(Status(id="s", token=crashed.token)))["session"]["state"] == "idle"
    lines = bench.result(bench.ask(Requests(id="r", token=crashed.token)))["requests"]
    assert (request.id, "explain_crash", "running") in [(one["request"], one["op"], one["state"]) for one in lines]
    bench.done(explaining)
    assert bench.result(request)["kind"] == "ran to its end"
    assert not [reply for _, reply in bench.sent if isinstance(reply, Event) and "again" in reply.text]


def test_the_version_of_the_crash_is_run(crashed: Crashed) -> None:
    """Whatever was loaded, put or dropped since; and as often as it is asked for."""
    bench = crashed.bench
    bench.load_unit(crashed.token, source="second text", version=2)
    bench.put_into(crashed.token, X, b"now")
    for _ in range(2):
        told = crashed.explained(OUTSIDE)
        assert (bench.loads[-1][1].version, bench.loads[-1][1].source) == (1, "first text")
        assert bench.put_back_bytes[-1] == [b"then"]
        assert [one["name"] for one in told["as_of"]] == ["x"]
        bench.now += 1.0


def test_what_has_no_copy_is_made_anew(bench: FrontBench) -> None:
    """An array with the same shape, so that bounds are right; an object cannot be, and its request is not run."""
    token = bench.hello()
    bench.load_unit(token, kind="field", name="mass")
    bench.keep_array(token, "s.1.1", label="x")
    lost = bench.run(token, args=(X,))
    bench.die(1)
    bench.loaded(bench.loads[-1])
    assert bench.error(lost)
    request = bench.ask(ExplainCrash(id="e", token=token))
    bench.loaded(bench.loads[-1])
    number, message = bench.put_backs[-1]
    assert (message.target, message.pieces) == (X, ())
    assert message.holding is not None
    bench.put_back((number, message))
    bench.done(bench.work[-1])
    told = bench.result(request)
    assert (told["as_of"], told["anew"], told["missing"]) == ([], ["x", "sim.mass"], [])


def test_an_object_cannot_be_had_again(bench: FrontBench) -> None:
    """A request that needs one is not run: it would fail for another reason."""
    token = bench.hello()
    bench.keep_array(token, "s.1.1", kind="object")
    lost = bench.run(token, args=([{"deep": Handle(kind="object", id="s.1.1")}],))
    bench.die(1)
    assert bench.error(lost)
    told = bench.result(bench.ask(ExplainCrash(id="e", token=token)))
    assert told["kind"] == "not restored"
    assert "object s.1.1" in told["message"]
    assert told["missing"] == ["object s.1.1"]


def test_an_array_that_does_not_fit_is_named(crashed: Crashed) -> None:
    """Where the request needs it, with the reason."""
    bench = crashed.bench
    request = crashed.explain()
    bench.loaded(bench.loads[-1])
    bench.put_back(bench.put_backs[-1], OutOfMemory("no room for 40 bytes"))
    told = bench.result(request)
    assert told["kind"] == "not restored"
    assert "no room for 40 bytes" in told["message"]
    assert "no room for 40 bytes" in told["missing"][0]


@pytest.mark.parametrize("during", ["starting", "opening", "loading"])
def test_a_debug_engine_that_does_not_come_up_is_told(crashed: Crashed, during: str) -> None:
    """With what it died of."""
    bench = crashed.bench
    bench.ready = during == "loading"
    if during == "starting":
        # The spare that is ready goes to somebody else.
        bench.ask(Hello(id="other"), b"other")
    request = crashed.explain()
    bench.die(max(bench.front.scheduler._explaining._under_way), -6)
    told = bench.result(request)
    assert told["kind"] == "not restored"
    assert "SIGABRT" in told["message"]
    assert ("sim" in told["message"]) == (during == "loading")


def test_it_has_a_deadline(crashed: Crashed) -> None:
    """A minute, or what its client says; then the engine is killed."""
    bench = crashed.bench
    for deadline in (None, 7.0):
        request = crashed.explain(deadline=deadline)
        number = bench.opens[-1][0]
        due = bench.front.next_deadline(bench.now)
        assert due is not None
        assert due <= bench.now + (deadline or 60.0)
        bench.wait((deadline or 60.0) - 0.1)
        assert bench.replies(request) == []
        bench.wait(0.1)
        assert bench.result(request)["kind"] == "took too long"
        assert number in bench.killed


@pytest.mark.parametrize("op", [Interrupt, Cancel])
def test_it_can_be_stopped(crashed: Crashed, op: Any) -> None:
    """By its id; the engine is killed, and the crash can be explained later."""
    bench = crashed.bench
    request = crashed.explain()
    number = bench.opens[-1][0]
    bench.ask(op(id="stop", token=crashed.token, request=request.id))
    assert bench.error(request).code == "interrupted"
    assert number in bench.killed
    bench.die(number, -9)
    bench.now += 1.0
    assert crashed.explained(OUTSIDE)["kind"] == "out of bounds"


def test_it_ends_with_its_session(crashed: Crashed) -> None:
    """Nothing is left of either."""
    bench = crashed.bench
    request = crashed.explain()
    number = bench.opens[-1][0]
    bench.ask(Bye(id="bye", token=crashed.token, end=True))
    assert bench.error(request).code == "interrupted"
    assert number in bench.killed
    assert bench.front.scheduler.copies.nbytes == 0


def test_two_clients_get_one_explanation(bench: FrontBench) -> None:
    """One engine runs it; that one of them gives up does not matter to the other."""
    crashed = Crashed(bench, session="lab")
    other = bench.hello(b"other", session="lab")
    mine = crashed.explain()
    engines = len(bench.opens)
    theirs = bench.ask(ExplainCrash(id="theirs", token=other), b"other")
    assert len(bench.opens) == engines
    bench.ask(Interrupt(id="stop", token=crashed.token, request=mine.id))
    crashed.restore()
    bench.failed(bench.work[-1], OUTSIDE)
    assert bench.error(mine).code == "interrupted"
    assert bench.result(theirs)["kind"] == "out of bounds"


def test_the_same_id_is_not_run_twice(crashed: Crashed) -> None:
    """A repetition is answered with the first one's answer."""
    bench = crashed.bench
    request = crashed.explain()
    bench.ask(request, b"again")
    crashed.restore()
    bench.failed(bench.work[-1], OUTSIDE)
    engines = len(bench.opens)
    bench.ask(request, b"once more")
    assert len(bench.opens) == engines
    assert [identity for identity, reply in bench.sent if reply.id == request.id] == [b"again", b"once more"]


def test_another_crash_meanwhile_is_another(crashed: Crashed) -> None:
    """The explanation that is under way is that of the first; who asks then gets the second's."""
    bench = crashed.bench
    first = crashed.explain()
    crashed.restore()
    explaining = bench.work[-1]
    bench.now += 1.0
    lost = bench.run(crashed.token, "other")
    crashed.crash(-6)
    second = crashed.explain()
    crashed.restore()
    bench.failed(bench.work[-1], KernelRuntimeError("bad", type="AssertionError"))
    assert (bench.result(second)["request"], bench.result(second)["kind"]) == (lost.id, "assertion")
    bench.failed(explaining, OUTSIDE)
    assert (bench.result(first)["request"], bench.result(first)["kind"]) == (crashed.lost.id, "out of bounds")


def test_a_request_that_is_too_large_is_not_kept() -> None:
    """That is said in the answer, and not hinted at in the crash's."""
    crashed = Crashed(FrontBench(Settings(copies_bytes=550)))
    assert crashed.bench.error(crashed.lost).data.get("explainable") is None
    told = crashed.bench.result(crashed.explain())
    assert told["kind"] == "not kept"
    assert "--copies" in told["message"]


def test_a_crash_where_nothing_ran_is_none(crashed: Crashed) -> None:
    """The last one with a request is explained."""
    bench = crashed.bench
    bench.die(bench.opens[-1][0], begun=False)
    assert crashed.explained(OUTSIDE)["request"] == crashed.lost.id


@pytest.mark.parametrize("running", [True, False])
def test_a_device_that_tells_late_has_the_run_before_suspected(bench: FrontBench, running: bool) -> None:
    """An illegal access that shows in a fetch is another's; one that shows in a run is its own."""
    token = bench.hello()
    suspect = bench.run(token, "step")
    bench.done(bench.work[-1])
    lost = bench.run(token, "later") if running else bench.ask(Fetch(id="fetch", token=token, target=Name(name="x")))
    bench.failed(bench.work[-1], OUTSIDE, poisoned="lost its device (CUDA_ERROR_ILLEGAL_ADDRESS)")
    bench.die(1, 1)
    error = bench.error(lost)
    assert error.data["request"] == lost.id
    suspected = f"request {suspect.id} (run step), may be the cause" in error.message
    assert suspected == (not running)
