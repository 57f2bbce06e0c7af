"""Taichi's public names, which a laptop cannot ask for: written by ``.ci/taichi-names``, not by hand."""

from __future__ import annotations

_NAMES = {
    "": """
ArgPack BitpackedFields CRITICAL DEBUG DeviceCapability ERROR Field FieldsBuilder Format GUI INFO Layout Matrix
MatrixField MatrixNdarray Mesh MeshInstance Ndarray SNode ScalarField ScalarNdarray Struct StructField TRACE
TaichiAssertionError TaichiCompilationError TaichiNameError TaichiRuntimeError TaichiRuntimeTypeError TaichiSyntaxError
TaichiTypeError Texture Vector VectorNdarray WARN abs acos activate ad algorithms amdgpu aot append argpack arm64 asin
assume_in_range atan2 atomic_add atomic_and atomic_max atomic_min atomic_mul atomic_or atomic_sub atomic_xor axes
bit_cast bit_shr block_local cache_read_only cast ceil cos cpu cuda data_oriented dataclass deactivate
deactivate_all_snodes dx11 dx12 eig exp experimental extension f16 f32 f64 field float16 float32 float64 floor frexp
func get_addr gles global_thread_idx gpu graph grouped hex_to_rgb i i16 i32 i64 i8 ij ijk ijkl ijl ik ikl il init int16
int32 int64 int8 is_active is_logging_effective j jk jkl jl k kernel kl l lang length linalg log loop_config math max
mesh_local mesh_patch_idx metal min ndarray ndrange no_activate one opengl polar_decompose pow profiler pyfunc randn
random raw_div raw_mod real_func ref rescale_index reset rgb_to_hex root round rsqrt select set_logging_level simt sin
solve sparse sparse_matrix_builder sqrt static static_assert static_print stop_grad svd sym_eig sync tan tanh template
tools types u1 u16 u32 u64 u8 ui uint1 uint16 uint32 uint64 uint8 vulkan x64 x86_64 zero
""",
    "ad": """
FwdMode Tape clear_all_gradients grad_for grad_replaced no_grad
""",
    "algorithms": """
PrefixSumExecutor parallel_sort
""",
    "graph": """
Arg ArgKind Graph GraphBuilder
""",
    "linalg": """
LinearOperator MatrixFreeBICGSTAB MatrixFreeCG SparseCG SparseMatrix SparseMatrixBuilder SparseSolver
TaichiRuntimeError TaichiTypeError matrixfree_cg sparse_cg sparse_matrix sparse_solver sqrt ti
""",
    "math": """
acos asin atan2 cconj cdiv ceil cexp cinv clamp clog clz cmul cos cpow cross csqrt degrees determinant distance dot e
exp eye floor fract inf inverse isinf isnan ivec2 ivec3 ivec4 length log log2 mat2 mat3 mat4 max min mix mod nan
normalize pi popcnt pow radians reflect refract rot_by_axis rot_yaw_pitch_roll rotation2d rotation3d round scale sign
sin smoothstep sqrt step tan tanh translate uvec2 uvec3 uvec4 vdir vec2 vec3 vec4
""",
    "profiler": """
CuptiMetric clear_kernel_profiler_info clear_scoped_profiler_info collect_kernel_profiler_metrics
get_kernel_profiler_total_time get_predefined_cupti_metrics kernel_metrics kernel_profiler memory_profiler
print_kernel_profiler_info print_memory_profiler_info print_scoped_profiler_info query_kernel_profiler_info
scoped_profiler set_kernel_profiler_metrics set_kernel_profiler_toolkit
""",
    "simt": """
block grid subgroup warp
""",
    "sparse": """
grid usage
""",
    "tools": """
PLYWriter VideoManager diagnose image imread imresize imshow imwrite np2ply video vtk write_vtk
""",
    "types": """
annotations argpack compound_types f16 f32 f64 float16 float32 float64 i16 i32 i64 i8 int16 int32 int64 int8
is_integral is_real is_signed is_tensor matrix ndarray ndarray_type primitive_types quant ref rw_texture
sparse_matrix_builder struct template texture texture_type u1 u16 u32 u64 u8 uint1 uint16 uint32 uint64 uint8 utils
vector
""",
}

#: By the module below ``taichi``; ``""`` is Taichi itself.
PUBLIC_NAMES = {module: frozenset(names.split()) for module, names in _NAMES.items()}
