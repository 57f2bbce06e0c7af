"""The runtimes there are, and where each of them keeps what the worker reaches into.

This is the seam: a runtime is added here, and to the tests' parameter. Nothing else asks which one it is. Nothing is
imported to tell all this, so that the front can ask as well.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Final

from tiremote.protocol.errors import Refused

#: The archs that draw as well; kernels go through another compiler and launcher there than on the others.
GRAPHICS: Final = frozenset({"vulkan", "metal", "opengl", "gles", "dx11", "dx12"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where things lie inside a runtime: modules below its package, such as ``lang.impl``, and names in them."""

    #: The module of the class ``Kernel``, by whose names that makes errors and waits for the device.
    kernels: str
    #: Where ``getsourcelines`` and ``getsourcefile`` are called.
    texts: str
    #: The class of ``lang.ast.ast_transformer_utils`` that a kernel's tree is walked with.
    context: str
    #: The method of that which tells the place of a node.
    place: str = "get_pos_info"
    #: The function of ``lang.impl`` that an ``assert`` in a kernel becomes.
    asserting: str
    #: Of a ``Kernel`` or func: its parameters.
    parameters: str
    #: Of a ``Kernel``: dicts by the key of an instance, dropped together. The first has all instances there are.
    instances: tuple[str, ...]
    #: What the arguments are called that ``materialize`` compiles for.
    compiled_for: str
    #: Of a ``Kernel``: what remembers launches by the identities of instance and arguments, and its dicts.
    launches: tuple[str, ...] = ()
    #: Of a ``Kernel``: what remembers the instance that was launched last.
    last_launch: tuple[str, ...] = ()
    #: Of what ``launch_kernel`` is given: which one the instance is, and how many come before the kernel's arguments.
    launched: tuple[int, int] = (0, 1)
    #: Settings that a ``Kernel`` copies from the configuration at each call, and needs to compile.
    call_settings: tuple[str, ...] = ()
    #: The methods that read the signature of a ``Kernel`` or a func, as (module, class and method).
    signatures: tuple[tuple[str, str], ...]
    #: The functions that make of an argument what tells instances apart, as (module, name), perhaps in a class.
    features: tuple[tuple[str, str], ...]
    #: (module, class) of what a decorator makes; None where it makes a function.
    decorated: tuple[str, str] | None = None
    #: The attribute by which a decorated func is told.
    func_mark: str
    #: (module, class) of a kernel that was got from an object, and its attribute that has the object.
    bound: tuple[str, str]
    owner: str
    #: Whether it takes a kernel that is a static method for one that needs an object.
    static_is_owned: bool = False
    #: Attributes of users' objects in which it remembers what else they hold.
    remembered: tuple[str, ...] = ()
    #: Of an array: which of its axes each axis in memory is, where it was declared with an order of its own.
    axis_order: str | None = None
    #: (module, name) of dicts that hold users' classes, and can be emptied at any time.
    class_caches: tuple[tuple[str, str], ...] = ()
    #: Of the one mutable object: the attribute that has the program, and those that say what is being compiled.
    program: str = "prog"
    compiling: tuple[str, ...]
    #: The module whose ``FieldsBuilder`` makes the next ``ti.root``.
    next_root: str
    #: What is set in its modules, by (module, name).
    mended: Mapping[tuple[str, str], object] = field(default_factory=dict)
    #: What the names of its exceptions begin with.
    errors: str
    #: The most arguments of one launch, templates left out.
    max_arguments: int
    #: The archs on which gradients of ndarrays are computed; on others they stay zeros, or worse.
    ndarray_gradients: frozenset[str] = frozenset({"cpu", "cuda"})
    #: What goes wrong without a word on graphics backends: ``bools``, ``argument packs``, ``NumPy arrays``.
    graphics_faults: frozenset[str] = frozenset({"bools", "argument packs", "NumPy arrays"})
    #: Options of ``init`` that a session may switch on, and that no other runtime has.
    flags: tuple[str, ...] = ()
    #: Options of ``init`` that are no session's business.
    init: Mapping[str, object] = field(default_factory=dict)
    #: While it is imported and from then on: no banner, no call home, prints to the real standard output.
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeKind:
    """A runtime by the name of its package. ``extra`` is the one of tiremote's that installs it."""

    name: str
    extra: str
    layout: Layout
    #: What Taichi 1.7 has and this one has not, with the public names that led to it.
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lacking(self, name: str) -> str | None:
        """What is missing where a public name such as ``types.texture`` is; None for a name of no such thing."""
        return next((what for what, names in self.lacks.items() if name in names), None)

    def is_installed(self) -> bool:
        """Whether Python finds it; it is not imported for that."""
        return importlib.util.find_spec(self.name) is not None


_TAICHI: Final = Layout(
    kernels="lang.kernel_impl",
    texts="lang.kernel_impl",
    context="ASTTransformerContext",
    asserting="ti_assert",
    parameters="arguments",
    instances=("compiled_kernels",),
    compiled_for="args",
    signatures=(("lang.kernel_impl", "Kernel.extract_arguments"), ("lang.kernel_impl", "Func.extract_arguments")),
    features=(("lang.kernel_impl", "TaichiCallableTemplateMapper.extract_arg"),),
    func_mark="_is_taichi_function",
    bound=("lang.kernel_impl", "_BoundedDifferentiableMethod"),
    owner="_kernel_owner",
    compiling=("compiling_callable", "current_kernel"),
    next_root="lang.impl",
    errors="Taichi",
    max_arguments=64,
    environment={"ENABLE_TAICHI_HEADER_PRINT": "0", "TI_SKIP_VERSION_CHECK": "ON", "TI_ENABLE_PYBUF": "0"},
)

#: It would tell the user that an argument cannot be referred to weakly, and that it is slower for that.
_MENDED: Final[Mapping[tuple[str, str], object]] = {
    ("lang._template_mapper", "warnings_helper"): SimpleNamespace(warn_once=lambda _: None)
}

_GSTAICHI: Final = Layout(
    kernels="lang.kernel",
    texts="lang._wrap_inspect",
    context="ASTTransformerFuncContext",
    asserting="ti_assert",
    parameters="arg_metas",
    instances=(
        "materialized_kernels",
        "compiled_kernel_data_by_key",
        "used_py_dataclass_leaves_by_key_collecting",
        "used_py_dataclass_leaves_by_key_enforcing",
        "used_py_dataclass_leaves_by_key_enforcing_dotted",
    ),
    compiled_for="py_args",
    launches=("launch_context_buffer_cache", "_launch_ctx_cache", "_launch_ctx_cache_tracker"),
    launched=(0, 2),
    call_settings=("raise_on_templated_floats",),
    signatures=(("lang._func_base", "FuncBase.check_parameter_annotations"),),
    features=(("lang._template_mapper", "_extract_arg"), ("lang._template_mapper_hotpath", "_extract_arg")),
    decorated=("lang._gstaichi_callable", "GsTaichiCallable"),
    func_mark="_is_gstaichi_function",
    bound=("lang._gstaichi_callable", "BoundGsTaichiCallable"),
    owner="instance",
    static_is_owned=True,
    mended=_MENDED,
    program="_prog",
    compiling=("_compiling_callable", "_current_kernel"),
    next_root="_snode.fields_builder",
    errors="GsTaichi",
    max_arguments=512,
    flags=("ad_stack_experimental_enabled", "raise_on_templated_floats"),
    # It would look for the text of a kernel on disk.
    init={"src_ll_cache": False},
    environment={"ENABLE_GSTAICHI_HEADER_PRINT": "0", "TI_ENABLE_PYBUF": "0"},
)

_QUADRANTS: Final = replace(
    _GSTAICHI,
    place="_build_pos_info",
    asserting="qd_assert",
    instances=(
        "materialized_kernels",
        "compiled_kernel_data_by_key",
        "used_py_dataclass_parameters_by_key_enforcing",
        "_struct_ndarray_launch_info_by_key",
        "_struct_primitive_launch_info_by_key",
    ),
    launched=(1, 3),
    decorated=("lang._quadrants_callable", "QuadrantsCallable"),
    func_mark="_is_quadrants_function",
    bound=("lang._quadrants_callable", "BoundQuadrantsCallable"),
    last_launch=("_mutable_nd_cached_key",),
    remembered=("_qd_nd_paths",),
    axis_order="_qd_layout",
    class_caches=(
        ("lang._template_mapper", "_arg_disposition"),
        ("lang._template_mapper_hotpath", "_struct_nd_paths_cache"),
        ("lang._func_base", "_frozen_dc_plans"),
        ("lang._final_dataclass_fields", "_final_plan_cache"),
        ("lang._final_dataclass_fields", "_final_path_cache"),
    ),
    # With True it remembers a launch by the identity of a NumPy integer, which the next one may have as well.
    mended={**_MENDED, ("lang._func_base", "_is_cpython"): False},
    compiling=("_compiling_callable", "_current_global_context"),
    ndarray_gradients=frozenset({"cpu", "cuda", "amdgpu", "vulkan", "metal"}),
    graphics_faults=frozenset(),
    errors="Quadrants",
    environment={"ENABLE_QUADRANTS_HEADER_PRINT": "0", "QD_ENABLE_PYBUF": "0"},
)

_FORKS_LACK: Final[Mapping[str, tuple[str, ...]]] = {
    "windows": ("GUI", "ui"),
    "textures": ("Texture", "types.texture", "types.rw_texture"),
    "argument packs": ("ArgPack", "argpack", "types.argpack"),
    "graphs of kernels": ("graph", "graph.Graph", "graph.GraphBuilder", "graph.Arg", "graph.ArgKind"),
    "modules compiled ahead of time": ("aot",),
    "images and videos": ("tools.imread", "tools.imresize", "tools.imshow", "tools.imwrite", "tools.VideoManager"),
    "such backend": ("opengl", "gles", "dx11", "dx12"),
}

#: In the order in which they are named to people.
RUNTIMES: Final[Mapping[str, RuntimeKind]] = {
    kind.name: kind
    for kind in (
        RuntimeKind(name="taichi", extra="worker", layout=_TAICHI),
        RuntimeKind(name="gstaichi", extra="gstaichi", layout=_GSTAICHI, lacks=_FORKS_LACK),
        RuntimeKind(name="quadrants", extra="quadrants", layout=_QUADRANTS, lacks=_FORKS_LACK),
    )
}


def installed() -> tuple[str, ...]:
    """The names of those that this Python finds."""
    return tuple(kind.name for kind in RUNTIMES.values() if kind.is_installed())


def check_runtime(name: object, there: Collection[str]) -> None:
    """Raises `Refused` for a name that is no runtime's, and for one that is not among those that are installed."""
    if not isinstance(name, str) or name not in RUNTIMES:
        raise Refused(f"there is no runtime {name!r}; there are {', '.join(RUNTIMES)}")
    if name not in there:
        raise Refused(
            f"runtime {name!r} is not installed on the worker: pip install 'tiremote[{RUNTIMES[name].extra}]' there; "
            f"installed are {', '.join(there) or 'none'}"
        )
