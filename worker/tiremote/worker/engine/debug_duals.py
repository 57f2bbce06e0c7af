"""Fields of a debug session whose duals have the field's own type.

Taichi gives them the type of the bits that it checks accesses with: a kernel in forward mode then ends the process.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiremote.worker.engine.runtime import TaichiRuntime


def install(runtime: TaichiRuntime) -> None:
    """Mends what makes the members of fields."""
    impl, core = runtime.impl, runtime.core
    create = impl.create_field_member
    kinds = core.SNodeGradType

    @functools.wraps(create)
    def create_field_member(dtype: Any, name: str, needs_grad: bool, needs_dual: bool) -> Any:
        made = list(create(dtype, name, needs_grad, needs_dual))
        wrong = made[2]
        if wrong is None or not runtime.config().debug:
            return tuple(made)
        dual = runtime.lang("expr").Expr(runtime.state.prog.make_id_expr(""))
        dual.ptr = core.expr_field(dual.ptr, runtime.lang("util").cook_dtype(dtype))
        dual.ptr.set_name(f"{name}.dual")
        dual.ptr.set_grad_type(kinds.DUAL)
        made[0].ptr.set_dual(dual.ptr)
        made[2] = dual
        waiting = runtime.state.dual_vars
        waiting[:] = [dual if each is wrong else each for each in waiting]
        return tuple(made)

    impl.create_field_member = create_field_member
