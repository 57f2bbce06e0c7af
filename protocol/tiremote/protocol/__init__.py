"""What both sides agree on: messages, their bytes, arrays, errors. No sockets and no Taichi in here.

`messages` has the requests and replies, `results` what each op answers with, `receipts` what those say about
code and data, `values` what travels inside them, `errors` the one tree of errors. `codec` turns all of it into
frames and back, on `packing` (our extension types over `plain` msgpack), `structures` (types checked by cattrs)
and `error_wire`.
PROTOCOL.md, beside this package, is the same for people who write a client in another language.
"""
