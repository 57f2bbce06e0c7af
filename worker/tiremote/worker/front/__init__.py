"""The front process: the public socket, sessions, queues, deadlines. No Taichi here, and nothing that blocks.

`core` and `scheduler` are sans-IO: clients' requests, engines' messages, deaths and the time go in, `effects`
come out. `loop` carries them out, on `processes` (engines) and a socket that `binding` made. `sessions` is what is
known, `answers` what is said, `record` what was said, `output` what was printed.
"""
