"""Derivatives through the wire: gradients, tapes and forward mode, from the client and in source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from features.rows import feature
from real_worker import RealWorker
from taped import failing, taped
from tiremote.client import Session, connect
from tiremote.protocol.errors import KernelArgumentError, KernelRuntimeError, Refused, UnknownName

VALUES = np.array([1, 2, 3], np.float32)

#: The derivatives are those of a sum of squares: twice the value.
SOURCE = """
x = ti.field(ti.f32, 3, needs_grad=True, needs_dual=True)
y = ti.field(ti.f32, 3, needs_dual=True)
loss = ti.field(ti.f32, (), needs_grad=True)
plain = ti.field(ti.f32, ())

@ti.kernel
def squares():
    for i in x:
        loss[None] += x[i] ** 2

@ti.kernel
def squares_of(a: ti.types.ndarray(), total: ti.types.ndarray()):
    for i in a:
        total[0] += a[i] ** 2

@ti.kernel
def each_squared():
    for i in x:
        y[i] += x[i] ** 2

@ti.kernel
def mixed():
    for i in x:
        loss[None] += x[i]
    x[0] = 3.0

@ti.kernel
def scaled(a: ti.f32):
    for i in x:
        loss[None] += a * x[i]

@ti.kernel
def put_gradient(a: ti.f32):
    for i in x:
        x.grad[i] += 100 * a

@ti.ad.grad_replaced
def replaced(a):
    scaled(a)

@ti.ad.grad_for(replaced)
def replaced_gradient(a):
    put_gradient(a)

@ti.ad.grad_replaced
def without_gradient(a):
    scaled(a)

@ti.ad.no_grad
def left_out(a):
    scaled(a)

def twice():
    squares()
    squares()
    return float(loss[None])

def fails():
    squares()
    raise ValueError("on purpose")

def tape_in_source():
    with ti.ad.Tape(loss):
        squares()
    return x.grad.to_numpy()

def tape_on(what):
    with ti.ad.Tape(what):
        squares()

def forward_then_tape():
    with ti.ad.FwdMode(loss=y, param=x, seed=[1.0, 0.0, 0.0]):
        each_squared()
        squares()
        squares()
    with ti.ad.Tape(loss):
        squares()
    return x.grad.to_numpy()

def forward_in_source(seed):
    with ti.ad.FwdMode(loss=y, param=x, seed=seed):
        each_squared()
    return y.dual.to_numpy()
"""


@pytest.fixture
def ad(gpu: Session) -> Session:
    """The session with the source loaded and ``x`` filled."""
    gpu.compile_and_load(SOURCE, "ad")
    gpu["ad"].x.from_numpy(VALUES)
    return gpu


@feature("autodiff", "`kernel.grad`")
def test_gradients_of_a_kernel(ad: Session) -> None:
    """``kernel.grad`` takes the kernel's arguments and adds to the gradients of its inputs."""
    unit = ad["ad"]
    unit.loss.grad.fill(1.0)
    unit.squares.grad()
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]
    a, total = ad.ti.ndarray("f32", 3, needs_grad=True), ad.ti.ndarray("f32", 1, needs_grad=True)
    a.from_numpy(VALUES)
    total.grad.fill(0.5)
    unit.squares_of.grad(a, total)
    assert a.grad.to_numpy().tolist() == [1, 2, 3]


@feature("autodiff", "`kernel.grad`")
def test_a_session_without_optimisation_differentiates_as_well(runtime_worker: RealWorker, arch: str) -> None:
    """Level 0 is no reason to refuse a gradient: the runtime goes to level 1 for it."""
    with connect(runtime_worker.address, arch=arch, options={"opt_level": 0}, on_output=None) as gpu:
        gpu.compile_and_load(SOURCE, "ad")
        gpu["ad"].x.from_numpy(VALUES)
        gpu["ad"].loss.grad.fill(1.0)
        gpu["ad"].squares.grad()
        assert gpu["ad"].x.grad.to_numpy().tolist() == [2, 4, 6]


@feature("autodiff", "`kernel.grad`", wrong=True)
def test_the_gradient_of_what_has_none(ad: Session) -> None:
    """A wrong argument is named as for the kernel itself; a Python function has no gradient to call."""
    with pytest.raises(KernelArgumentError, match="'a' takes f32, but 'two'") as caught:
        ad["ad"].scaled.grad("two")
    assert caught.value.parameter == "a"
    with pytest.raises(UnknownName, match=r"no 'twice\.grad'"):
        ad["ad"].twice.grad()


@feature("autodiff", "`needs_grad` fields")
def test_a_field_with_a_gradient(ad: Session) -> None:
    """The gradient of a field made from the client or in the source is read and written like a field."""
    for field in (ad.ti.field("f32", 3, needs_grad=True), ad["ad"].x):
        assert not field.grad.to_numpy().any()
        field.grad.from_numpy(VALUES)
        field.grad[1] = 7
        assert field.grad.to_numpy().tolist() == [1, 7, 3]
        assert field.grad[:2].tolist() == [1, 7]
    vectors = ad.ti.Vector.field(2, "f64", (2, 3), needs_grad=True)
    vectors.grad.fill(1.5)
    assert vectors.grad.to_numpy().tolist() == np.full((2, 3, 2), 1.5).tolist()


@feature("autodiff", "`needs_grad` fields", wrong=True)
def test_a_field_without_a_gradient(ad: Session) -> None:
    """It says how to make one that has a gradient, and integers are refused one."""
    for field in (ad.ti.field("f32", 3), ad["ad"].plain):
        with pytest.raises(UnknownName, match="no grad: make it with needs_grad=True"):
            field.grad.to_numpy()
    with pytest.raises(KernelArgumentError, match="only f16, f32 and f64 have gradients") as caught:
        ad.ti.field("i32", 3, needs_grad=True)
    assert caught.value.parameter == "needs_grad"


@feature("autodiff", "`needs_grad` ndarrays")
def test_an_ndarray_with_a_gradient(ad: Session) -> None:
    """The gradient of an ndarray is read and written like one, lives as long as it does, and counts in its bytes."""
    a = ad.ti.ndarray("f32", 3, needs_grad=True)
    gradient = a.grad
    gradient.from_numpy(VALUES)
    assert (gradient.shape, gradient.dtype) == (a.shape, a.dtype)
    assert gradient.to_numpy().tolist() == [1, 2, 3]
    assert ad.describe().nbytes == 2 * a.nbytes
    del a
    ad.ping()
    assert gradient.summary().maximum == 3


@feature("autodiff", "`needs_grad` ndarrays", wrong=True)
def test_an_ndarray_without_a_gradient(ad: Session) -> None:
    """It says how to make one; a gradient is not given back alone."""
    with pytest.raises(UnknownName, match="no grad: make it with needs_grad=True"):
        ad.ti.ndarray("f32", 3).grad  # noqa: B018 - asking is what is tested
    with pytest.raises(Refused, match="goes with the array"):
        ad.ti.ndarray("f32", 3, needs_grad=True).grad.free()


@feature("autodiff", "`ti.ad.Tape` from the client")
def test_a_tape_around_calls(ad: Session) -> None:
    """Calls in the block are recorded, their values are there at once, and the gradients are there where it ends."""
    unit = ad["ad"]
    with ad.ti.ad.Tape(unit.loss) as tape:
        assert unit.twice() == 28
        unit.squares.submit()
    assert tape.calls == 3
    assert unit.x.grad.to_numpy().tolist() == [6, 12, 18]
    assert unit.loss[()] == 42
    unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [6, 12, 18]


@feature("autodiff", "`ti.ad.Tape` from the client")
def test_a_tape_with_ndarrays(ad: Session) -> None:
    """The loss may be an ndarray of one element; as in Taichi the gradients of ndarrays are added to."""
    a, total = ad.ti.ndarray("f32", 3, needs_grad=True), ad.ti.ndarray("f32", 1, needs_grad=True)
    a.from_numpy(VALUES)
    for times in (1, 2):
        with ad.ti.ad.Tape(total):
            ad["ad"].squares_of(a, total)
        assert a.grad.to_numpy().tolist() == [2 * times, 4 * times, 6 * times]


@feature("autodiff", "`ti.ad.Tape` from the client")
def test_gradients_that_are_not_cleared(ad: Session) -> None:
    """Without ``clear_gradients`` they are added to what is there."""
    unit = ad["ad"]
    for clear, expected in ((True, [2, 4, 6]), (False, [4, 8, 12]), (True, [2, 4, 6])):
        with ad.ti.ad.Tape(unit.loss, clear_gradients=clear):
            unit.squares()
        assert unit.x.grad.to_numpy().tolist() == expected


@feature("autodiff", "`ti.ad.Tape` from the client", wrong=True)
def test_what_is_no_loss(ad: Session) -> None:
    """The parameter, what it takes and what came are named before anything is recorded."""
    unit = ad["ad"]
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: 5, "takes a remote field or ndarray, but a int came"),
        (lambda: unit.x, r"takes a field of shape \(\), but ad.x has the shape \(3,\)"),
        (lambda: unit.plain, "needs an array with needs_grad=True, and ad.plain was made without"),
        (lambda: ad.ti.ndarray("f32", 3, needs_grad=True), "takes an ndarray of one element"),
        (lambda: ad.ti.ndarray("f32", 1), "needs_grad=True"),
        (lambda: ad.ti.Vector.field(2, "f32", (), needs_grad=True), r"elements of shape \(2,\)"),
    ]
    for make, words in wrong:
        with pytest.raises(KernelArgumentError, match=words) as caught, ad.ti.ad.Tape(make()):
            pass
        assert caught.value.parameter == "loss"


@feature("autodiff", "`ti.ad.Tape` from the client", wrong=True)
def test_a_kernel_that_cannot_be_differentiated(ad: Session) -> None:
    """Its name and line are told where the block ends, and the next tape works."""
    unit = ad["ad"]
    with pytest.raises(KernelRuntimeError, match=r"gradient of mixed\(\).*Mixed usage") as caught:
        taped(ad.ti.ad.Tape(unit.loss), unit.mixed)
    assert caught.value.frames[-1].function == "mixed"
    assert caught.value.line is not None
    with ad.ti.ad.Tape(unit.loss):
        unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [6, 4, 6]


@feature("autodiff", "`ti.ad.Tape` from the client", wrong=True)
def test_blocks_that_could_give_wrong_gradients(ad: Session) -> None:
    """A block within a block, a put between recorded calls, and a call that failed half-way are refused."""
    unit = ad["ad"]
    with ad.ti.ad.Tape(unit.loss):
        with pytest.raises(Refused, match=r"a block of ti\.ad\.Tape has not ended"), ad.ti.ad.Tape(unit.loss):
            pass
        unit.x.from_numpy(VALUES)
        unit.squares()
        with pytest.raises(Refused, match="Put it before the block"):
            unit.x.fill(1.0)
        unit.plain.fill(1.0)
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]
    with pytest.raises(Refused, match=r"ad\.fails failed after a part of it was recorded"):
        taped(ad.ti.ad.Tape(unit.loss), failing(KernelRuntimeError, unit.fails), unit.squares)
    with pytest.raises(Refused, match="opened a tape of its own"), ad.ti.ad.Tape(unit.loss):
        unit.tape_in_source()


@feature("autodiff", "`ti.ad.Tape` from the client", wrong=True)
def test_an_error_in_the_block(ad: Session) -> None:
    """It leaves the block as it is, nothing is differentiated, and a refused argument alone does no harm."""
    unit = ad["ad"]
    with pytest.raises(ZeroDivisionError):
        taped(ad.ti.ad.Tape(unit.loss), unit.squares, lambda: 1 / 0)
    assert not unit.x.grad.to_numpy().any()
    with ad.ti.ad.Tape(unit.loss):
        with pytest.raises(KernelArgumentError):
            unit.scaled("two")
        unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]


@feature("autodiff", "`ti.ad.Tape` in source")
def test_a_tape_in_a_function_of_the_source(ad: Session) -> None:
    """A driver function records and differentiates as it would locally."""
    assert ad["ad"].tape_in_source().tolist() == [2, 4, 6]


@feature("autodiff", "`ti.ad.Tape` in source", wrong=True)
def test_a_wrong_loss_in_source(ad: Session) -> None:
    """What Taichi says of it comes with the user's own line, and the next call works."""
    with pytest.raises(KernelRuntimeError, match="loss") as caught:
        ad["ad"].tape_on(ad["ad"].x)
    assert caught.value.frames[-1].function == "tape_on"
    assert ad["ad"].tape_in_source().tolist() == [2, 4, 6]


@feature("autodiff", "forward mode from the client")
def test_forward_mode_around_calls(ad: Session) -> None:
    """Calls in the block compute duals by the seed; afterwards the same kernels are as before, also on a tape."""
    unit = ad["ad"]
    with ad.ti.ad.FwdMode(loss=unit.y, param=unit.x, seed=[1, 1, 0]):
        unit.each_squared()
        unit.each_squared()
    assert unit.y.dual.to_numpy().tolist() == [4, 8, 0]
    assert unit.y.to_numpy().tolist() == [2, 8, 18]
    assert not unit.x.dual.to_numpy().any()
    with ad.ti.ad.FwdMode(loss=unit.y, param=unit.x, seed=[0, 0, 1]):
        unit.each_squared()
    assert unit.y.dual.to_numpy().tolist() == [0, 0, 6]
    with ad.ti.ad.Tape(unit.loss):
        unit.squares()
        unit.each_squared()
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]


OF_VECTORS = """
@ti.kernel
def powers(x: ti.template(), v: ti.template(), m: ti.template()):
    for i in x:
        v[i][0] = x[i]
        v[i][1] = x[i] ** 2
        m[i][0, 0] = x[i] ** 3
        m[i][1, 1] = x[i]

@ti.kernel
def summed(v: ti.template(), m: ti.template(), y: ti.template()):
    for i in y:
        y[i] = v[i][1] + m[i][0, 0]
"""


@feature("autodiff", "forward mode from the client")
def test_duals_of_vectors_and_matrices_that_a_client_made(ad: Session) -> None:
    """``Vector.field`` and ``Matrix.field`` take ``needs_dual`` and ``needs_grad`` as ``field`` does."""
    ti = ad.ti
    unit = ad[ad.compile_and_load(OF_VECTORS).unit]
    x = ti.field(ti.f32, 2, needs_dual=True)
    v = ti.Vector.field(2, ti.f32, 2, needs_dual=True)
    m = ti.Matrix.field(2, 2, ti.f32, 2, needs_dual=True, needs_grad=True)
    x.from_numpy(np.array([2, 3], np.float32))
    y = ti.field(ti.f32, 2, needs_dual=True)
    with ti.ad.FwdMode(loss=y, param=x, seed=[1.0, 0.0]):
        unit.powers(x, v, m)
        unit.summed(v, m, y)
    assert y.dual.to_numpy().tolist() == [16, 0]
    assert v.dual.to_numpy().tolist() == [[1, 4], [0, 0]]
    assert m.dual.to_numpy().tolist() == [[[12, 0], [0, 1]], [[0, 0], [0, 0]]]
    assert m.grad.element_shape == (2, 2)


@feature("autodiff", "forward mode from the client", wrong=True)
def test_what_forward_mode_does_not_take(ad: Session) -> None:
    """A field without a dual, a seed that does not fit, or an ndarray: each names its parameter."""
    unit = ad["ad"]
    for parameter, words, block in (
        ("seed", r"is needed for a parameter of shape \(3,\)", lambda: ad.ti.ad.FwdMode(unit.y, unit.x)),
        ("seed", "has 1 numbers, and the parameter 3", lambda: ad.ti.ad.FwdMode(unit.y, unit.x, seed=[1])),
        ("loss", "needs_dual=True, and ad.loss", lambda: ad.ti.ad.FwdMode(unit.loss, unit.x, seed=[1, 1, 1])),
        ("param", "needs_dual=True, and ad.plain", lambda: ad.ti.ad.FwdMode(unit.y, unit.plain)),
        ("param", "takes a scalar field", lambda: ad.ti.ad.FwdMode(unit.y, ad.ti.ndarray("f32", 3), seed=[1, 1, 1])),
    ):
        with pytest.raises(KernelArgumentError, match=words) as caught, block():
            pass
        assert caught.value.parameter == parameter
    with pytest.raises(KernelArgumentError, match="fields alone"):
        ad._exchange.call(_alloc_of_an_ndarray_with_a_dual(), dict)


def _alloc_of_an_ndarray_with_a_dual() -> object:
    from tiremote.protocol.messages import Alloc

    return Alloc(id="", shape=(3,), needs_dual=True)


@feature("autodiff", "forward mode in source")
def test_forward_mode_in_a_function_of_the_source(ad: Session) -> None:
    """A driver function computes duals as it would locally."""
    assert ad["ad"].forward_in_source([1.0, 0.0, 1.0]).tolist() == [2, 0, 6]


@feature("autodiff", "forward mode in source")
def test_a_kernel_that_was_called_twice_is_as_before(ad: Session) -> None:
    """It can be recorded on a tape, where Taichi leaves it in forward mode."""
    assert ad["ad"].forward_then_tape().tolist() == [2, 4, 6]


@feature("autodiff", "forward mode in source", wrong=True)
def test_a_wrong_seed_in_source(ad: Session) -> None:
    """A seed of another length is told with the user's line, and the next call works."""
    with pytest.raises(KernelRuntimeError) as caught:
        ad["ad"].forward_in_source([1.0])
    assert caught.value.frames[-1].function == "forward_in_source"
    assert ad["ad"].forward_in_source([0.0, 1.0, 0.0]).tolist() == [0, 4, 0]


@feature("autodiff", "`ti.ad.grad_replaced`, `grad_for`, `no_grad`")
def test_gradients_of_their_own(ad: Session) -> None:
    """A replaced gradient is what runs backwards, and what has no gradient is left out."""
    unit = ad["ad"]
    with ad.ti.ad.Tape(unit.loss):
        unit.replaced(2.0)
    assert unit.x.grad.to_numpy().tolist() == [200, 200, 200]
    with ad.ti.ad.Tape(unit.loss):
        unit.left_out(2.0)
        unit.squares()
    assert unit.x.grad.to_numpy().tolist() == [2, 4, 6]


@feature("autodiff", "`ti.ad.grad_replaced`, `grad_for`, `no_grad`", wrong=True)
def test_a_replaced_gradient_that_nobody_wrote(ad: Session) -> None:
    """The call is refused on a tape; the decorators themselves are for the source."""
    with pytest.raises(Refused, match=r"no ti\.ad\.grad_for has its gradient"), ad.ti.ad.Tape(ad["ad"].loss):
        ad["ad"].without_gradient(1.0)
    with pytest.raises(AttributeError, match="decorate functions in the source"):
        ad.ti.ad.grad_replaced  # noqa: B018 - asking is what is tested


@feature("autodiff", "`clear_all_gradients`")
def test_all_gradients_are_cleared(ad: Session) -> None:
    """Of every field, whoever made it; ndarrays keep theirs, as in Taichi."""
    mine, array = ad.ti.field("f32", 3, needs_grad=True), ad.ti.ndarray("f32", 3, needs_grad=True)
    for gradient in (mine.grad, array.grad, ad["ad"].x.grad):
        gradient.fill(1.0)
    ad.ti.ad.clear_all_gradients()
    assert not mine.grad.to_numpy().any()
    assert not ad["ad"].x.grad.to_numpy().any()
    assert array.grad.to_numpy().all()


@feature("autodiff", "`clear_all_gradients`", wrong=True)
def test_a_misspelt_name_of_autodiff(ad: Session) -> None:
    """What there is is listed."""
    with pytest.raises(AttributeError, match="it has Tape, FwdMode and clear_all_gradients"):
        ad.ti.ad.clear_gradients()
