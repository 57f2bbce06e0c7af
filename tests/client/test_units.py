"""What a unit defines, as attributes; found anew where it may have changed."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest

from tiremote.client import RemoteArray, RemoteField, RemoteKernel, RemoteObject, Session, connect
from tiremote.protocol.errors import EngineCrashed, UnknownName
from tiremote.protocol.messages import Describe, Fetch, Request, Run
from tiremote.protocol.receipts import Definition, Parameter
from tiremote.protocol.results import FetchResult, RunResult
from tiremote.protocol.values import Handle, Name

from .fake_worker import FakeWorker


def test_each_kind_of_definition_comes_as_what_it_is(worker: FakeWorker, gpu: Session) -> None:
    """Callables, fields, ndarrays; anything else by value."""
    worker.define("u", k="kernel", f="function", C="class", x="field", y="ndarray", G="value")
    fetched: list[Fetch] = []
    answer = worker._answer

    def fetch(request: Request, identity: bytes) -> Any:
        if isinstance(request, Fetch):
            fetched.append(request)
            return FetchResult(value=9.81)
        return answer(request, identity)

    worker._answer = fetch  # type: ignore[method-assign]
    unit = gpu["u"]
    assert [type(unit[name]) for name in ("k", "f", "C", "x", "y")] == [
        RemoteKernel, RemoteKernel, RemoteKernel, RemoteField, RemoteArray,
    ]  # fmt: skip
    assert unit.G == 9.81
    assert fetched[0].target == Name(unit="u", name="G")
    assert dir(unit) == sorted(["k", "f", "C", "x", "y", "G"])
    assert list(unit) == ["k", "f", "C", "x", "y", "G"]
    assert "k" in unit
    assert "z" not in unit


def test_no_name_of_the_source_is_hidden(worker: FakeWorker, gpu: Session) -> None:
    """Also those that other objects here use, and private ones as items."""
    names = ("submit", "grad", "run", "keys", "definition", "unit", "_private")
    worker.define("u", **dict.fromkeys(names, "kernel"))
    for name in names:
        assert isinstance(gpu["u"][name], RemoteKernel)
    assert isinstance(gpu["u"].submit, RemoteKernel)
    with pytest.raises(AttributeError, match=r"gpu\[id\]\['_private'\]"):
        _ = gpu["u"]._private


def test_what_notebooks_and_copy_probe_for_costs_no_request(worker: FakeWorker, gpu: Session) -> None:
    """Names with underscores are answered here."""
    worker.define("u", k="kernel")
    unit = gpu["u"]
    before = len(worker.requests)
    assert not hasattr(unit, "_repr_html_")
    assert not hasattr(unit, "__array_interface__")
    copy.copy(unit)
    assert len(worker.requests) == before


def test_an_unknown_name_is_an_attribute_error_with_what_was_meant(worker: FakeWorker, gpu: Session) -> None:
    """So `hasattr` works; as an item it is `UnknownName` as well."""
    worker.define("doubler", kernel_a="kernel")
    with pytest.raises(UnknownName, match="did you mean 'kernel_a'") as caught:
        _ = gpu["doubler"].kernel_b
    assert isinstance(caught.value, AttributeError)
    assert caught.value.known == ("kernel_a",)
    assert not hasattr(gpu["doubler"], "zzz")
    with pytest.raises(UnknownName, match="'doubler' defines no 'zzz'; there is kernel_a"):
        gpu["doubler"]["zzz"]
    with pytest.raises(UnknownName, match="did you mean 'doubler'"):
        gpu["dubler"]
    with pytest.raises(TypeError, match="kernel id"):
        gpu[3]  # type: ignore[index]


def test_nothing_loaded_says_what_comes_first(gpu: Session) -> None:
    """An empty session."""
    with pytest.raises(UnknownName, match="compile_and_load"):
        _ = gpu[None].k


def test_the_newest_is_the_newest_when_it_is_used(worker: FakeWorker, gpu: Session) -> None:
    """A kernel of ``gpu[None]`` that was kept is looked up by the worker at each call; data stays what it was."""
    worker.define("a", k="kernel", x="field")
    kernel, field = gpu[None].k, gpu[None].x
    worker.define("b", k="kernel")
    kernel()
    assert worker.of(Run)[-1].target == Name(unit=None, name="k")
    assert field._target == Name(unit="a", name="x")


def test_a_kernel_in_a_private_session_is_remembered(worker: FakeWorker, gpu: Session) -> None:
    """Calling it again and again costs one message each, until something is loaded."""
    gpu.compile_and_load("k", "u")
    for _ in range(5):
        gpu["u"].k()
    assert len(worker.of(Describe)) == 1
    gpu.compile_and_load("k2", "u")
    assert hasattr(gpu["u"], "k2")
    assert not hasattr(gpu["u"], "k")
    gpu.cleanup("u")
    assert "u" not in gpu


def test_what_others_load_into_a_shared_session_is_seen(worker: FakeWorker) -> None:
    """Nothing is remembered where others load and drop."""
    with connect(worker.address, session="shared") as gpu:
        worker.define("u", k="kernel")
        assert hasattr(gpu["u"], "k")
        worker.define("u", k="field")
        assert isinstance(gpu["u"].k, RemoteField)
        del worker.units["u"]
        with pytest.raises(UnknownName):
            gpu["u"]


def test_what_was_lost_with_an_engine_is_asked_for_anew(worker: FakeWorker, gpu: Session) -> None:
    """What was remembered is not true any more."""
    worker.define("u", k="kernel")
    worker.on_run = lambda _: EngineCrashed("SIGSEGV", signal="SIGSEGV")
    with pytest.raises(EngineCrashed):
        gpu["u"].k()
    worker.units.clear()
    with pytest.raises(UnknownName):
        gpu["u"]


def test_kernels_are_called_with_all_that_was_given(worker: FakeWorker, gpu: Session) -> None:
    """Positional, by any name, with one deadline or two, and the gradient."""
    worker.define("u", k="kernel")
    kernel = gpu["u"].k
    kernel(1, self=2, deadline=3, target=4)
    kernel.with_options(deadline=2.5)(1)
    kernel.grad(5)
    kernel.grad.with_options(deadline=1).submit(6).result(10)
    kernel.with_options(deadline=1, compile_deadline=60).grad(10)
    gpu.run("k", 7, name=8)
    gpu.run("u.k", 9)
    runs = [(run.target, run.args, run.kwargs, run.deadline, run.compile_deadline) for run in worker.of(Run)]
    assert runs == [
        (Name(unit="u", name="k"), (1,), {"self": 2, "deadline": 3, "target": 4}, None, None),
        (Name(unit="u", name="k"), (1,), {}, 2.5, None),
        (Name(unit="u", name="k.grad"), (5,), {}, None, None),
        (Name(unit="u", name="k.grad"), (6,), {}, 1, None),
        (Name(unit="u", name="k.grad"), (10,), {}, 1, 60),
        (Name(unit=None, name="k"), (7,), {"name": 8}, None, None),
        (Name(unit="u", name="k"), (9,), {}, None, None),
    ]
    with pytest.raises(UnknownName):
        gpu.run("nope")


def test_objects_stay_there_and_their_methods_are_called(worker: FakeWorker, gpu: Session) -> None:
    """An instance is a handle; an attribute is a method or a value; cleanup drops it."""
    worker.define("u", Sim="class")
    handle = Handle(kind="object", id="o1", meta={"type": "Sim"})
    worker.on_run = lambda run: RunResult(value=handle if run.method is None else run.method)
    sim = gpu["u"].Sim(4)
    assert isinstance(sim, RemoteObject)
    assert repr(sim) == "<RemoteObject Sim>"
    assert sim.step(0.5) == "step"
    assert sim["_private"]() == "_private"
    assert sim.step.grad() == "step.grad"
    assert sim.step.submit().result(10) == "step"
    assert worker.of(Run)[1].target == handle
    worker.attributes["n"] = 5
    assert sim.n == 5
    sim.n = 6
    assert sim.n == 6
    worker.arrays["o1"] = np.zeros(0)
    assert gpu.cleanup(sim).handles == ("o1",)


def test_handles_that_come_back_are_remote_things(worker: FakeWorker, gpu: Session) -> None:
    """Also inside tuples, lists and dicts."""
    worker.define("u", f="function")
    array, field = worker.keep(np.zeros(3, np.float32)), worker.keep(np.zeros(2, np.int32), "field")
    worker.on_run = lambda _: RunResult(value=(array, {"f": [field]}))
    x, rest = gpu["u"].f()
    assert type(x) is RemoteArray
    assert type(rest["f"][0]) is RemoteField
    assert rest["f"][0].to_numpy().tolist() == [0, 0]


def test_reprs_tell_signature_kind_and_unit(worker: FakeWorker, gpu: Session) -> None:
    """As the receipt says it."""
    worker.define("u", k="kernel")
    definition = Definition(name="k", kind="kernel", parameters=(Parameter(name="x", takes="f32"),))
    worker.units["u"] = dataclasses.replace(worker.units["u"], definitions=(definition,))
    assert repr(gpu["u"].k) == "<remote kernel k(x: f32) of 'u'>"
    assert repr(gpu[None].k) == "<remote kernel k(x: f32) of the newest unit>"
    assert (repr(gpu["u"]), repr(gpu[None])) == ("<RemoteUnit 'u'>", "<RemoteUnit newest>")
    assert gpu["u"].k.definition == definition
