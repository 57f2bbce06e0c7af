"""Writes ``vectors/*.json``: messages as frames, and what they mean, for people who write a client.

Run it after a change of the protocol: ``python protocol/make_vectors.py``. The tests compare the files with what
it would write, and decode the frames with nothing but msgpack and struct.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from tiremote.protocol.attributes import AttributeResult
from tiremote.protocol.benchmarking import Benchmark
from tiremote.protocol.chunks import FoundChunks, cut, digest_of, in_chunks
from tiremote.protocol.codec import decode_reply, decode_request, encode, failure, id_in, id_of, read_header
from tiremote.protocol.coding import filtered
from tiremote.protocol.comparison import Comparison, Difference, timed
from tiremote.protocol.dtypes import DTYPES, name_of
from tiremote.protocol.error_wire import BY_CODE
from tiremote.protocol.errors import AsOf, SourceFrame, TiremoteError
from tiremote.protocol.explanation import CrashExplanation
from tiremote.protocol.lanes import LaneResult, LendResult
from tiremote.protocol.messages import (
    Alloc,
    Bench,
    Bye,
    Cancel,
    Cleanup,
    ClearGradients,
    CloseTape,
    Collect,
    Compare,
    Compile,
    CompileAll,
    Describe,
    Event,
    ExplainCrash,
    Fetch,
    FindChunks,
    GetAttribute,
    GetSyntaxTree,
    Hello,
    History,
    Interrupt,
    Lend,
    Ok,
    OpenLane,
    OpenTape,
    Ping,
    Put,
    Reply,
    Request,
    Requests,
    Rollback,
    Run,
    SetAttribute,
    Side,
    Snapshot,
    Status,
    UnitText,
)
from tiremote.protocol.receipts import (
    ArrayHolding,
    Capture,
    Change,
    Definition,
    Description,
    Parameter,
    Receipt,
    Summary,
    Timing,
    UnitHolding,
    UnitVersion,
)
from tiremote.protocol.results import (
    ArrayResult,
    ByeResult,
    CancelResult,
    CleanupResult,
    CompileAllResult,
    EngineInfo,
    FetchResult,
    HelloResult,
    HistoryResult,
    InterruptResult,
    Limits,
    Pong,
    RequestLine,
    RequestsResult,
    Running,
    RunResult,
    SessionStatus,
    SnapshotResult,
    WorkerStatus,
)
from tiremote.protocol.syntax_tree import SyntaxTree
from tiremote.protocol.tapes import ClosedTape, TapeResult
from tiremote.protocol.values import CHUNKS, ArrayDescriptor, Handle, Name, WireArray, wire_array

FOLDER = Path(__file__).parent / "vectors"

TOKEN = "0123456789abcdefghijkl"
HANDLE = Handle(kind="ndarray", id="s1-a1b2c3.1.1", meta={"dtype": "f32", "shape": [10], "element_shape": []})
FIELD = Handle(kind="field", id="s1-a1b2c3.1.2")
OBJECT = Handle(kind="object", id="s1-a1b2c3.1.3", meta={"type": "Solver", "methods": ["step"]})
TAPE = Handle(kind="object", id="s1-a1b2c3.1.4", meta={"type": "ClientTape"})
SOURCE = "@ti.kernel\ndef add_base(x: ti.types.ndarray(), base: ti.f32):\n    for i in x:\n        x[i] += base\n"
ENGINE = EngineInfo(runtime="taichi", version="1.7.4", arch="cuda", device="NVIDIA H200")
TIMING = Timing(queue=0.001, compile=0.25, launch=0.002, total=0.26)
CODINGS = ("shuffle-zstd", "delta-shuffle-zstd", "delta2-shuffle-zstd")
COUNTED = np.arange(10, dtype="f4")
ADD_BASE = Definition(
    name="add_base",
    kind="kernel",
    line=2,
    parameters=(
        Parameter(name="x", takes="ndarray(f32, ndim=1)", shape="(N,) f32"),
        Parameter(name="base", takes="f32"),
    ),
    captures=(Capture(name="scale", what="0.5"),),
    checked=True,
)
HOLDING = ArrayHolding(handle=HANDLE, label="x", nbytes=40, made_by=3)
UNIT = UnitHolding(unit="kernel_0", version=1, definitions=(ADD_BASE,), source_bytes=len(SOURCE), loaded_by=2)
USED_HOLDING = replace(HOLDING, owner="me@laptop", unused=2.5)
USED_UNIT = replace(UNIT, version=3, nbytes=400, sizes={"x": 400}, held=(1,), owner="me@laptop", unused=0.5)

#: Two chunks: 4,096 bytes of 0, 1, 2, ... and 8 bytes.
CHUNK_KEY = "s1-a1b2c3"
CHUNKED = wire_array(np.arange(1026, dtype="f4"))
DIGESTS = b"".join(digest_of(chunk, CHUNK_KEY.encode()) for chunk in cut(CHUNKED.data, 4096))

REQUESTS: list[tuple[str, Request]] = [
    ("hello for a private session with the worker's own options", Hello(id=1)),
    (
        "hello for a named session with options and a lease of an hour",
        Hello(id=1, versions=(1, 1), session="lab", client="me@laptop", options={"debug": True}, lease=3600.0),
    ),
    ("hello that rejoins by its token after a cut", Hello(id="hello-2", token=TOKEN)),
    ("ping without a session", Ping(id=2)),
    ("ping that asks whether the worker still has requests", Ping(id=3, token=TOKEN, pending=(7, 8, "a"))),
    (
        "ping with the last event that came for each request, and the answers that came",
        Ping(id=3, token=TOKEN, pending=(10, 11), seen=(3,), received=(9,)),
    ),
    ("status of the worker alone", Status(id=4)),
    ("status of the worker and of the session", Status(id=4, token=TOKEN)),
    ("describe", Describe(id=5, token=TOKEN)),
    ("interrupt whatever runs", Interrupt(id=6, token=TOKEN)),
    ("interrupt one request", Interrupt(id=6, token=TOKEN, request=9)),
    ("cancel a queued request", Cancel(id=7, token=TOKEN, request="long-1")),
    ("bye, the session stays", Bye(id=8, token=TOKEN)),
    ("bye, the answers that came", Bye(id=8, token=TOKEN, received=(9, 10))),
    ("requests of all clients of the session", Requests(id=8, token=TOKEN)),
    ("explain the last crash, within ten seconds", ExplainCrash(id=18, token=TOKEN, deadline=10.0)),
    ("collect a request of another client", Collect(id=17, token=TOKEN, request="a-1", seat=1, events=True)),
    ("collect a request whose arrays may be coded", Collect(id=17, token=TOKEN, request="a-1", codings=CODINGS)),
    ("bye, the session ends", Bye(id=8, token=TOKEN, end=True)),
    ("compile as the next free unit", Compile(id=9, token=TOKEN, source=SOURCE)),
    ("compile as a named unit", Compile(id=9, token=TOKEN, source=SOURCE, unit="adder", events=True, deadline=60.0)),
    ("compile that starts clean", Compile(id=9, token=TOKEN, source=SOURCE, unit="adder", keep=False)),
    ("snapshot", Snapshot(id=9, token=TOKEN, every_seconds=60.0, every_runs=1000)),
    (
        "compile_all of two units that use one another's new names",
        CompileAll(id=9, token=TOKEN, units=(
            UnitText(unit="lib", source="@ti.func\ndef half(x):\n    return x / 2\n"),
            UnitText(unit="sim", source="@ti.kernel\ndef step(x: ti.f32) -> ti.f32:\n    return half(x)\n"))),
    ),
    ("rollback", Rollback(id=9, token=TOKEN, unit="adder", version=1)),
    ("compare what is loaded with the version before", Compare(id=9, token=TOKEN, target=Name(unit="adder",
        name="add_base"), args=(HANDLE, 5.0))),
    ("compare two versions", Compare(id=9, token=TOKEN, target=Name(unit="adder", name="add_base"), args=(HANDLE,),
        kwargs={"base": 5.0}, before=Side(version=1), after=Side(version=3), repeats=50, deadline=60.0)),
    ("compare what is loaded with a text to try", Compare(id=9, token=TOKEN, target=Name(unit="adder", name="add_base"),
        args=(wire_array(COUNTED), 5.0), after=Side(source=SOURCE))),
    ("history of a unit", History(id=9, token=TOKEN, unit="adder")),
    ("history with the text of one version", History(id=9, token=TOKEN, unit="adder", version=1)),
    ("run a kernel of the newest unit", Run(id=10, token=TOKEN, target=Name(name="add_base"), args=(HANDLE, 5.0))),
    (
        "run with keywords, events and a deadline",
        Run(id=10, token=TOKEN, target=Name(unit="adder", name="add_base"), args=(HANDLE,), kwargs={"base": 5.0},
            events=True, deadline=10.0),
    ),
    (
        "run with a deadline of its own for what compiles",
        Run(id=10, token=TOKEN, target=Name(name="add_base"), args=(HANDLE, 5.0), deadline=1.0, compile_deadline=60.0),
    ),
    (
        "run that is sent again after a cut, with the last event that came",
        Run(id=10, token=TOKEN, target=Name(name="add_base"), args=(HANDLE, 5.0), events=True, seen=3),
    ),
    (
        "run with NumPy arrays: in and out, only in, only out",
        Run(id=11, token=TOKEN, target=Name(name="mix"),
            args=(COUNTED, wire_array(COUNTED, access="in"), wire_array(COUNTED, access="out"))),
    ),
    ("run whose arrays may come back coded", Run(id=11, token=TOKEN, target=Name(name="mix"), args=(COUNTED,),
                                                codings=CODINGS[:1])),
    ("run that is to be made again over a lane", Run(id=11, token=TOKEN, target=Name(name="add"), args=(HANDLE, 5.0),
                                                     site=1)),
    ("open_lane", OpenLane(id=23, token=TOKEN)),
    ("bench", Bench(id=25, token=TOKEN, target=Name(unit="sim", name="step"), args=(HANDLE, 5.0))),
    ("bench of a method, many calls", Bench(id=25, token=TOKEN, target=OBJECT, method="step", warmup=10, repeats=1000,
                                            deadline=60.0)),
    ("lend", Lend(id=24, token=TOKEN, number=1)),
    ("run a method of a kept object", Run(id=12, token=TOKEN, target=FIELD, method="fill", args=(1.0,))),
    ("syntax_tree of a kernel", GetSyntaxTree(id=21, token=TOKEN, target=Name(unit="adder", name="add_base"))),
    ("get_attribute", GetAttribute(id=20, token=TOKEN, target=OBJECT, name="mass")),
    ("set_attribute", SetAttribute(id=20, token=TOKEN, target=OBJECT, name="mass", value=2.5)),
    ("open_tape for a loss", OpenTape(id=19, token=TOKEN, loss=(Name(unit="sim", name="loss"),))),
    ("open_tape in forward mode", OpenTape(id=19, token=TOKEN, mode="forward", loss=(FIELD,), seed=(1.0, 0.0),
                                           parameter=Name(unit="sim", name="x"), clear=False)),
    ("run that goes onto a tape", Run(id=10, token=TOKEN, target=Name(name="step"), tape=TAPE)),
    ("close_tape", CloseTape(id=19, token=TOKEN, tape=TAPE)),
    ("close_tape without gradients", CloseTape(id=19, token=TOKEN, tape=TAPE, evaluate=False)),
    ("clear_gradients", ClearGradients(id=19, token=TOKEN)),
    ("fetch a gradient", Fetch(id=15, token=TOKEN, target=Handle(kind="ndarray", id=f"{HANDLE.id}.grad"))),
    ("put as a new ndarray", Put(id=13, token=TOKEN, array=wire_array(COUNTED), label="x")),
    ("put into a whole array", Put(id=13, token=TOKEN, target=HANDLE, array=wire_array(COUNTED))),
    (
        "put into x[2:4]",
        Put(id=13, token=TOKEN, target=HANDLE, array=wire_array(COUNTED[:2]), region=((2, 4, None),)),
    ),
    ("put the scalars 4 to 8 of a large array", Put(id=13, token=TOKEN, target=HANDLE, array=wire_array(COUNTED[4:8]),
                                                   flat=(4, 8))),
    ("put a float64 array with conversion", Put(id=13, token=TOKEN, target=HANDLE,
                                                array=wire_array(COUNTED.astype("f8")), cast=True)),
    ("find_chunks, in the session's cache or in the part that they are for", FindChunks(
        id=22, token=TOKEN, digests=DIGESTS, size=4096, target=HANDLE, flat=(0, 1026))),
    ("find_chunks, in the session's cache alone", FindChunks(id=22, token=TOKEN, digests=DIGESTS, size=4096)),
    ("put of two chunks, the second with its bytes", Put(id=13, token=TOKEN, target=HANDLE, flat=(0, 1026),
                                                         array=in_chunks(CHUNKED, 4096, DIGESTS, (1,)))),
    ("put one kept array into another", Put(id=13, token=TOKEN, target=HANDLE, source=Name(unit="sim", name="pos"))),
    ("alloc an ndarray of zeros", Alloc(id=14, token=TOKEN, shape=(10,))),
    ("alloc a field of vectors", Alloc(id=14, token=TOKEN, kind="field", shape=(4, 4), element_shape=(3,),
                                       needs_grad=True, label="v")),
    ("alloc a field of structs", Alloc(id=14, token=TOKEN, kind="field", shape=(4,), label="p", members={
        "pos": ["f32", [3]], "mass": ["f32", []], "inner": {"n": ["i32", []]}})),
    ("alloc filled with a value", Alloc(id=14, token=TOKEN, dtype="i32", shape=(4,), fill="value", value=7)),
    ("alloc filled with a vector", Alloc(id=14, token=TOKEN, shape=(4,), element_shape=(2,), fill="value",
                                         value=[0.5, 2.0])),
    ("alloc filled with random numbers", Alloc(id=14, token=TOKEN, shape=(4,), fill="random", seed=42)),
    ("alloc a snapshot to be fetched in ranges", Alloc(id=14, token=TOKEN, kind="array", copy_of=HANDLE)),
    ("alloc that fills what is there", Alloc(id=14, token=TOKEN, target=HANDLE, fill="arange")),
    ("fetch a whole array", Fetch(id=15, token=TOKEN, target=HANDLE)),
    ("fetch x[1, ::-1]", Fetch(id=15, token=TOKEN, target=HANDLE, region=(1, (None, None, -1)))),
    ("fetch a flat range", Fetch(id=15, token=TOKEN, target=HANDLE, flat=(0, 5))),
    ("fetch an array that may be coded", Fetch(id=15, token=TOKEN, target=HANDLE, codings=CODINGS)),
    ("fetch a summary", Fetch(id=15, token=TOKEN, target=HANDLE, form="summary")),
    ("fetch what a name stands for", Fetch(id=15, token=TOKEN, target=Name(unit="sim", name="pos"), form="handle")),
    ("cleanup of a unit", Cleanup(id=16, token=TOKEN, unit="adder")),
    ("cleanup of arrays", Cleanup(id=16, token=TOKEN, targets=(HANDLE, FIELD))),
    ("cleanup of everything", Cleanup(id=16, token=TOKEN, everything=True)),
]  # fmt: skip

SESSION_STATUS = SessionStatus(
    session="lab", state="busy", generation=1, clients=2, queued=1,
    running=Running(request=10, op="run", target="add_base", seconds=1.5, client="me@laptop"),
    units=1, unit_bytes=400, held_versions=1, arrays=1, array_bytes=40, copies_bytes=552, snode_trees=2,
    engine_pid=4711, engine_memory=1 << 30, device_free=100 << 30, device_total=139 << 30,
    leaked=40 << 20, recycled=2, recycle="not possible: a thread runs: worker", engine=ENGINE,
)  # fmt: skip

REPLIES: list[tuple[str, Reply]] = [
    (
        "hello",
        Ok(id=1, result=HelloResult(
            version=1, token=TOKEN, session="lab", engine=ENGINE, worker_version="0.1.0", limits=Limits(),
            ops=("hello", "ping", "run"), options={"arch": "cuda", "debug": True, "runtime": "taichi"},
            runtimes=("taichi", "quadrants"), lease=86400.0, codings=CODINGS,
            chunk_cache=256 << 20, chunk_key=CHUNK_KEY)),
    ),
    ("ping", Ok(id=2, result=Pong())),
    ("ping, two requests have to be sent again", Ok(id=3, result=Pong(missing=(7, "a")))),
    (
        "status",
        Ok(id=4, result=WorkerStatus(
            pid=4242, uptime=12.5, worker_version="0.1.0", engine=ENGINE, sessions=1, spares=1, requests=100, dropped=0,
            crashes=0, state="kept", session=SESSION_STATUS)),
    ),
    (
        "describe",
        Ok(id=5, result=Description(
            session="lab", generation=1, runtime="taichi", version="1.7.4", newest="kernel_0", units=(USED_UNIT,),
            arrays=(USED_HOLDING,), nbytes=40)),
    ),
    ("interrupt", Ok(id=6, result=InterruptResult(stopped=9))),
    ("interrupt where nothing ran", Ok(id=6, result=InterruptResult())),
    ("cancel", Ok(id=7, result=CancelResult(cancelled=True))),
    ("bye", Ok(id=8, result=ByeResult(lease=86400.0))),
    (
        "requests",
        Ok(id=8, result=RequestsResult(requests=(
            RequestLine(request="a-1", op="run", target="run add_base", seat=1, state="running", seconds=1.5,
                        client="me@laptop"),
            RequestLine(request=9, op="run", target="run step", seat=2, state="answered", seconds=60.0,
                        code="runtime", nbytes=40),
        ))),
    ),
    ("collect of a run", Ok(id=17, result=RunResult(value=7), timing=TIMING, collected="run")),
    (
        "compile",
        Ok(id=9, result=Receipt(unit="kernel_0", version=1, definitions=(ADD_BASE,), seconds=0.25), timing=TIMING),
    ),
    (
        "compile or rollback that kept state and built another unit again",
        Ok(
            id=9,
            result=Receipt(
                unit="adder",
                version=2,
                previous=1,
                definitions=(ADD_BASE,),
                changes=(
                    Change(name="add_base", status="changed", unit="adder", seconds=0.01),
                    Change(name="step", status="rebuilt", unit="sim", because=("add_base",), seconds=0.02),
                ),
                kept=("total", "sim.state"),
                reset=("mass",),
                lines_added=1,
                lines_removed=1,
                seconds=0.25,
                memory=150_000_000,
            ),
            timing=TIMING,
        ),
    ),
    (
        "compile_all",
        Ok(id=9, result=CompileAllResult(receipts=(
            Receipt(unit="lib", version=2, previous=1, lines_added=1, lines_removed=1, seconds=0.25),
            Receipt(unit="sim", version=5, previous=4, lines_added=1, lines_removed=1, seconds=0.25))), timing=TIMING),
    ),
    (
        "compare",
        Ok(id=9, result=Comparison(
            unit="adder", name="add_base", before=timed(1, 0.25, (0.003, 0.002, 0.004)),
            after=timed(None, 0.125, (0.001, 0.002, 0.001)), ratio=0.5, ratio_lower_quartile=0.375,
            ratio_upper_quartile=0.75,
            differences=(
                Difference(name="argument x", same_bits=False, dtype="f32", shape=(10,), max_abs=0.5, max_rel=0.125,
                           at=(3,), before=4.0, after=3.5, nan_after=1),
                Difference(name="returned value", same_bits=False, note="f32 () before, i32 () after"),
            ),
            warnings=("after (the text): total begins as declared: what is loaded declares it otherwise",)),
            timing=TIMING),
    ),
    (
        "history",
        Ok(
            id=9,
            result=HistoryResult(
                unit="adder",
                current=2,
                versions=(
                    UnitVersion(version=1, loaded_by=2, loaded_at=1.7e9, source_bytes=100, lines_added=4),
                    UnitVersion(version=2, loaded_by=9, loaded_at=1.8e9, lines_added=1, lines_removed=1),
                ),
            ),
        ),
    ),
    ("run without a value", Ok(id=10, result=RunResult(), timing=TIMING)),
    (
        "run with a value, and the first argument written to",
        Ok(id=11, result=RunResult(value=np.float32(2.5), written=((0, wire_array(COUNTED + 5)),)), timing=TIMING),
    ),
    (
        "run that wrote to a member of its second argument",
        Ok(id=12, result=RunResult(written=(("1.mass", wire_array(COUNTED + 1)),)), timing=TIMING),
    ),
    (
        "run of a Python function that returns a tuple with an array and something that stays on the worker",
        Ok(id=11, result=RunResult(
            value=(1, [COUNTED], {"solver": Handle(kind="object", id="s1-a1b2c3.1.3", meta={"type": "Solver"})})),
            timing=TIMING),
    ),
    ("put of a new array, and alloc", Ok(id=13, result=ArrayResult(holding=HOLDING), timing=TIMING)),
    ("put into an array, and alloc that fills", Ok(id=13, result=ArrayResult(), timing=TIMING)),
    ("fetch of an array", Ok(id=15, result=FetchResult(value=COUNTED), timing=TIMING)),
    (
        "fetch of a summary",
        Ok(id=15, result=FetchResult(summary=Summary(
            dtype="f32", shape=(10,), nbytes=40, minimum=0.0, maximum=9.0, mean=4.5, corners="[0. 1. 2. ... 9.]")),
            timing=TIMING),
    ),
    ("fetch of a handle", Ok(id=15, result=FetchResult(handle=HANDLE), timing=TIMING)),
    ("syntax_tree", Ok(id=21, result=SyntaxTree(
        unit="adder", version=1, name="f", line=1, text="Module(\n  body=[...])",
        json='{"type": "Module", "fields": {"body": [], "type_ignores": []}, "lineno": null, "col_offset": null}'),
        timing=TIMING)),
    ("get_attribute of a number", Ok(id=20, result=AttributeResult(value=2.5), timing=TIMING)),
    ("get_attribute of a field", Ok(id=20, result=AttributeResult(value=FIELD), timing=TIMING)),
    ("get_attribute of a method", Ok(id=20, result=AttributeResult(callable=True), timing=TIMING)),
    ("set_attribute", Ok(id=20, result=AttributeResult(value=2.5), timing=TIMING)),
    ("open_tape", Ok(id=19, result=TapeResult(tape=TAPE), timing=TIMING)),
    ("close_tape", Ok(id=19, result=ClosedTape(calls=2), timing=TIMING)),
    ("clear_gradients", Ok(id=19, result=TapeResult(), timing=TIMING)),
    ("run that can be made again", Ok(id=11, result=RunResult(remembered=True), timing=TIMING)),
    ("open_lane", Ok(id=23, result=LaneResult(address="tiremote-4711-0b1c2d3e", secret=bytes(16)), timing=TIMING)),
    ("open_lane where there is none", Ok(id=23, result=LaneResult(), timing=TIMING)),
    ("bench", Ok(id=25, timing=TIMING,
                 result=Benchmark(name="sim.step", warmup=3, compile=0.25, launches=(0.5, 0.25)))),
    ("lend", Ok(id=24, result=LendResult(calls=2), timing=TIMING)),
    ("find_chunks", Ok(id=22, result=FoundChunks(missing=(1,)), timing=TIMING)),
    ("snapshot", Ok(id=9, result=SnapshotResult(
        copied=("adder.total", "x"), skipped={"adder.tree": "it is sparse"}, nbytes=44, every_seconds=60.0),
        timing=TIMING)),
    ("explain_crash", Ok(id=18, result=CrashExplanation(
        kind="out of bounds", message="index (10) is out of bounds: the shape is (10)", request=10,
        target="run add_base", crash="the engine died of SIGSEGV",
        frames=(SourceFrame(unit="kernel_0", version=1, function="add_base", line=4, column=9, end_column=13,
                            text="        x[i] += base"),),
        index=(10,), bounds=(10,),
        as_of=(AsOf(name="x", target=HANDLE.id, request=7, op="put", seconds=1.5),), anew=("y",), seconds=2.5))),
    ("cleanup", Ok(id=16, result=CleanupResult(units=("adder",), handles=(HANDLE.id,), nbytes=40), timing=TIMING)),
    ("event: printed by a kernel", Event(id=10, seq=1, event="stdout", text="i = 3\n")),
    ("event: printed to standard error", Event(id=10, seq=2, event="stderr", text="careful\n")),
    ("event: a warning", Event(id=10, seq=3, event="warning", text="output cut: 5 more lines were not sent")),
    ("event: a gap", Event(id=10, seq=9, event="gap", text="output is lost: events 4 to 9 of this request are no "
                           "longer kept", data={"first": 4, "last": 9})),
    ("event: progress", Event(id="long-1", seq=1, event="progress", text="step 50", data={"done": 50, "of": 100})),
]  # fmt: skip

ERROR_DATA: dict[str, Any] = {
    "supported": (1, 1), "size": 70_000_000, "limit": 67_108_864, "parameter": "base", "type": "ZeroDivisionError",
    "frames": (SourceFrame(unit="kernel_0", version=1, function="add_base", line=4, column=9, end_column=21,
                           text="        x[i] += base"),),
    "request": 10, "unit": "kernel_0", "restored": ("kernel_0",),
    "as_of": (AsOf(name="x", target="s1-a1b2c3.1.1", request=7, op="put", seconds=1.5),),
    "coming": ("sim.v",), "lost": ("y",), "generation": 2,
    "signal": "SIGSEGV", "explainable": True, "deadline": 10.0,
    "phase": "run",
    "chunks": (1, 4), "requested": 1 << 40, "available": 1 << 30, "name": "add_bsae", "known": ("add_base",),
    "handle": HANDLE.id,
}  # fmt: skip


def coded(array: np.ndarray, coding: str) -> WireArray:
    """An array in a coding, its frame of zstd holding the bytes as they are: every encoder's is another."""
    data = filtered(np.frombuffer(array.tobytes(), np.uint8), array.itemsize, coding).tobytes()
    frame = b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, "little") + data
    return WireArray(ArrayDescriptor(dtype=name_of(array.dtype), shape=array.shape, coding=coding), frame)


def _ext(code: int, content: Any) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb(content))


def _header(**fields: Any) -> bytes:
    return bytes(
        msgpack.packb({"v": 1, "op": "run", "id": 1, "token": TOKEN, "target": _ext(5, [None, "f"]), **fields})
    )


PING = msgpack.packb({"v": 1, "op": "ping", "id": 1})

MALFORMED: list[tuple[str, list[bytes]]] = [
    ("no msgpack", [b"hello"]),
    ("a truncated header", [PING[:-1]]),
    ("a byte too many", [PING + b"\0"]),
    ("a header that is no map", [b"\x93\x01\x02\x03"]),
    ("a header without a version", [msgpack.packb({"op": "ping", "id": 1})]),
    ("a version that is no int", [msgpack.packb({"v": "1", "op": "ping", "id": 1})]),
    ("an unknown version", [msgpack.packb({"v": 99, "op": "ping", "id": 1})]),
    ("an unknown op", [msgpack.packb({"v": 1, "op": "destroy", "id": 1})]),
    ("an id that is none", [msgpack.packb({"v": 1, "op": "ping", "id": 1.5})]),
    ("no id", [msgpack.packb({"v": 1, "op": "ping"})]),
    ("an unknown field", [msgpack.packb({"v": 1, "op": "ping", "id": 1, "colour": "red"})]),
    ("a field of a wrong type", [msgpack.packb({"v": 1, "op": "ping", "id": 1, "pending": "all"})]),
    ("a missing field", [msgpack.packb({"v": 1, "op": "compile", "id": 1, "token": TOKEN})]),
    ("a key that is no string", [msgpack.packb({"v": 1, "op": "ping", "id": 1, 7: 7})]),
    ("the same key twice", [b"\x84" + PING[1:] + b"\xa1v\x01"]),
    ("text that is not UTF-8", [b"\x83\xa1v\x01\xa2op\xa4ping\xa2id\xa2\xff\xfe"]),
    ("a length that lies", [b"\x83\xa1v\x01\xa2id\x01\xa2op\xdd\xff\xff\xff\xff"]),
    ("nested 33 deep", [_header(args=json.loads("[" * 32 + "]" * 32))]),
    ("an option that is no plain value", [msgpack.packb(
        {"v": 1, "op": "hello", "id": 1, "options": {"arch": json.loads("[" * 30 + "]" * 30)}}
    )]),
    ("a negative deadline", [_header(deadline=-1.0)]),
    ("a negative number of events seen", [_header(seen=-1)]),
    ("a deadline that is not a number", [_header(deadline=math.nan)]),
    ("no time to compile at all", [_header(compile_deadline=0.0)]),
    ("an array larger than its buffer", [_header(args=[_ext(1, ["f32", [3], "C", 0])]), bytes(8)]),
    ("an array smaller than its buffer", [_header(args=[_ext(1, ["f32", [1], "C", 0])]), bytes(8)]),
    ("an array of a buffer that did not come", [_header(args=[_ext(1, ["f32", [2], "C", 1])]), bytes(8)]),
    ("an array of a negative size", [_header(args=[_ext(1, ["f32", [-1], "C", 0])]), bytes(8)]),
    ("an array of an unknown order", [_header(args=[_ext(1, ["f32", [2], "A", 0])]), bytes(8)]),
    ("an array of complex numbers", [_header(args=[_ext(1, ["c64", [1], "C", 0])]), bytes(8)]),
    ("an array in an unknown coding", [_header(args=[_ext(1, ["f32", [2], "C", 0, "in", True, "zip"])]), bytes(8)]),
    ("a bench of no calls", [msgpack.packb(
        {"v": 1, "op": "bench", "id": 1, "token": TOKEN, "target": _ext(5, [None, "a"]), "repeats": 0})]),
    ("a struct without members", [msgpack.packb(
        {"v": 1, "op": "alloc", "id": 1, "token": TOKEN, "kind": "field", "members": {}})]),
    ("a member that is no type", [msgpack.packb(
        {"v": 1, "op": "alloc", "id": 1, "token": TOKEN, "kind": "field", "members": {"a": ["f32"]}})]),
    ("a lend before the first", [msgpack.packb(
        {"v": 1, "op": "lend", "id": 1, "token": TOKEN, "number": 0})]),
    ("digests that are cut off", [msgpack.packb(
        {"v": 1, "op": "find_chunks", "id": 1, "token": TOKEN, "digests": bytes(40), "size": 4096})]),
    ("chunks that are too small", [msgpack.packb(
        {"v": 1, "op": "find_chunks", "id": 1, "token": TOKEN, "digests": bytes(32), "size": 64})]),
    ("a coded array above the limit of a buffer", [
        _header(args=[_ext(1, ["f32", [1 << 25], "C", 0, "in", True, "shuffle-zstd"])]), bytes(8)]),
    ("a scalar of too few bytes", [_header(args=[_ext(3, ["f32", b"\0\0"])])]),
    ("a handle without an id", [_header(args=[_ext(2, ["ndarray"])])]),
    ("an unknown extension type", [_header(args=[msgpack.ExtType(99, b"")])]),
    ("msgpack's own timestamp", [_header(args=[msgpack.Timestamp(0)])]),
    ("a region and a flat range at once", [msgpack.packb(
        {"v": 1, "op": "fetch", "id": 1, "token": TOKEN, "target": _ext(5, [None, "x"]), "region": [0], "flat": [0, 1]}
    )]),
    ("compile_all without a unit", [msgpack.packb({"v": 1, "op": "compile_all", "id": 1, "units": []})]),
    ("compile_all with a unit twice", [msgpack.packb(
        {"v": 1, "op": "compile_all", "id": 1, "units": [{"unit": "a", "source": "x = 1"}] * 2}
    )]),
    ("compile_all with an unknown field in a unit", [msgpack.packb(
        {"v": 1, "op": "compile_all", "id": 1, "units": [{"unit": "a", "source": "x = 1", "keep": True}]}
    )]),
    ("compare without a launch", [msgpack.packb(
        {"v": 1, "op": "compare", "id": 1, "token": TOKEN, "target": _ext(5, [None, "f"]), "repeats": 0}
    )]),
    ("compare of an object's handle", [msgpack.packb(
        {"v": 1, "op": "compare", "id": 1, "token": TOKEN, "target": _ext(2, ["object", "s1-a1b2c3.1.1", {}])}
    )]),
    ("open_tape for two losses", [msgpack.packb(
        {"v": 1, "op": "open_tape", "id": 1, "token": TOKEN, "loss": [_ext(5, [None, "a"]), _ext(5, [None, "b"])]}
    )]),
    ("open_tape in an unknown mode", [msgpack.packb(
        {"v": 1, "op": "open_tape", "id": 1, "token": TOKEN, "mode": "sideways", "loss": [_ext(5, [None, "a"])]}
    )]),
    ("open_tape in forward mode without a parameter", [msgpack.packb(
        {"v": 1, "op": "open_tape", "id": 1, "token": TOKEN, "mode": "forward", "loss": [_ext(5, [None, "a"])]}
    )]),
    ("a tape that is a name", [_header(tape=_ext(5, [None, "tape"]))]),
    ("more buffers than are taken", [PING, *[b""] * (Limits().buffers + 1)]),
]  # fmt: skip


def meaning(value: Any) -> Any:
    """A decoded value in JSON: what JSON lacks is a map of one ``$`` key."""
    match value:
        case WireArray(descriptor=d):
            known = {"dtype": d.dtype, "shape": list(d.shape), "order": d.order, "buffer": d.buffer,
                     "access": d.access, "writeable": d.writeable}  # fmt: skip
            known |= {} if d.coding is None else {"coding": d.coding}
            if d.coding == CHUNKS:
                size, digests, given, coding, data = msgpack.unpackb(value.data)
                chunks = {"size": size, "digests": digests.hex(), "given": given, "coding": coding, "data": data.hex()}
                return {"$array": known | {"chunks": chunks}}
            elements = None if value.data is None else [meaning(one.item()) for one in value.view().reshape(-1)]
            return {"$array": known | {"elements in C order": elements}}
        case Handle():
            return {"$handle": {"kind": value.kind, "id": value.id, "meta": meaning(value.meta)}}
        case Name():
            return {"$name": {"unit": value.unit, "name": value.name}}
        case np.generic():
            return {"$scalar": {"dtype": name_of(value.dtype), "value": meaning(value.item())}}
        case tuple():
            return {"$tuple": [meaning(one) for one in value]}
        case list():
            return [meaning(one) for one in value]
        case dict():
            return {key: meaning(one) for key, one in value.items()}
        case bytes():
            return {"$bytes": value.hex()}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case bool() | None | str() | float() | int():
            return value
    raise TypeError(f"no meaning in JSON for {type(value).__name__}")


def vector(description: str, direction: str, frames: Sequence[Any]) -> dict[str, Any]:
    """One message as it lies on the wire, and its header's meaning."""
    sent = [bytes(frame) for frame in frames]
    (decode_request if direction == "to the worker" else decode_reply)(sent)
    return {
        "description": description,
        "direction": direction,
        "frames": [frame.hex() for frame in sent],
        "header": meaning(read_header(sent[0], sent[1:])),
    }


def malformed(description: str, frames: list[bytes]) -> dict[str, Any]:
    """One request that is refused, and how the worker answers it."""
    try:
        decode_request(frames)
    except TiremoteError as error:
        try:
            answered = id_of(read_header(frames[0], frames[1:]))
        except TiremoteError:
            answered = id_in(frames[0])
        return {
            "description": description,
            "direction": "to the worker",
            "frames": [frame.hex() for frame in frames],
            "error": {"id": answered, "code": error.code},
        }
    raise AssertionError(f"{description}: it was accepted")


def _extremes(name: str) -> np.ndarray:
    dtype = DTYPES[name]
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        return np.array([-1.5, 0.0, np.finfo(dtype).max, np.inf, -np.inf, np.nan], dtype)
    return np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype)


def _values() -> list[tuple[str, Any]]:
    return [
        ("nil", None),
        ("booleans", [False, True]),
        ("ints up to 64 bits", [0, -1, 127, 128, -(2**63), 2**64 - 1]),
        ("floats", [0.5, -0.0, math.inf, math.nan]),
        ("text", ["", "ü", "\U0001f600"]),
        ("bytes", b"\x00\xff"),
        ("lists and maps", [[], {}, {"a": [1, {"b": None}]}]),
        ("tuples", ((), (1, (2, [3])))),
        ("a handle", HANDLE),
        ("a handle without meta", Handle(kind="object", id="s1-a1b2c3.1.9")),
        ("names", [Name(name="step"), Name(unit="sim", name="step.grad")]),
        *[(f"scalars of {name}", list(_extremes(name))) for name in DTYPES],
        *[(f"an array of {name}", _extremes(name)) for name in DTYPES],
        ("an array of two axes in C order", np.arange(6, dtype="i4").reshape(2, 3)),
        ("the same in Fortran order", np.asfortranarray(np.arange(6, dtype="i4").reshape(2, 3))),
        ("an array without axes", np.array(1.5, "f8")),
        ("an empty array", np.empty((0, 3), "f4")),
        *[
            (f"an array in the coding {coding}", coded(np.array([[3, 2, 2], [-1, 70000, 8]], dtype), coding))
            for coding, dtype in (("shuffle-zstd", "i4"), ("delta-shuffle-zstd", "i4"), ("delta2-shuffle-zstd", "i8"))
        ],
        ("two arrays, one of them read-only", [COUNTED[:2], np.broadcast_to(np.float32(1), (2,))]),
    ]


def vectors() -> dict[str, list[dict[str, Any]]]:
    """File name to its vectors."""
    errors = []
    for code, cls in BY_CODE.items():
        error = cls(f"a message in one line for {code}", **{name: ERROR_DATA[name] for name in cls.carries})
        errors.append(vector(f"error: {code}", "to the client", encode(failure(10, error))))
    nobody = encode(failure(None, BY_CODE["protocol"]("the header is no msgpack")))
    errors.append(vector("error: the request had no readable id", "to the client", nobody))
    return {
        "requests.json": [vector(what, "to the worker", encode(request)) for what, request in REQUESTS],
        "replies.json": [vector(what, "to the client", encode(reply)) for what, reply in REPLIES],
        "errors.json": errors,
        "values.json": [vector(what, "to the client", encode(Ok(id=1, result=one))) for what, one in _values()],
        "malformed.json": [malformed(what, frames) for what, frames in MALFORMED],
    }


def text(entries: list[dict[str, Any]]) -> str:
    """A file's text: one vector per line, so that a change shows what changed."""
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in entries)
    return f"[\n{lines}\n]\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, entries in vectors().items():
        (FOLDER / name).write_text(text(entries), encoding="utf-8")


if __name__ == "__main__":
    main()
