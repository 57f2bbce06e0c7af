"""The engine process: one session's Taichi, on its main thread. No ZeroMQ here, and no import of the front.

`process` takes messages off the link and answers each once, with `nudges` (stopping user code) and `output` (whose
print it is) beside it; `service` has the ops, of which `runs` has the calls, with `lanes` and `sites` for those that
come past the front. Code: `loader` and `unit` on `source`, `global_names`,
`future_annotations`, `check` and `call_types` (compiling before the first call), `definitions` (what a receipt tells),
`frames` (errors in the user's lines). Calls: `arguments` on `signature`, `converters`, `scalars` and `writes`;
`results` on the way back. Data: `arrays` on `storage`, `regions`, `casting`, `fills`, `summaries`, `copy_kernels`,
`field_memory` and `cuda_driver`; `holdings` has the handles.

What knows Taichi's insides is `runtime` with its half `runtime_arrays`, and what they are made of: `source_hooks`,
`init_guard`, `half_declared`, `snode_trees`. `options` and `device` say what a session may ask for and runs on.
"""
