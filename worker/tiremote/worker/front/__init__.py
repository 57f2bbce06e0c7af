"""The front process: the public socket, sessions, queues, deadlines. No Taichi here, and nothing that blocks.

`core` is where clients' messages come in and `scheduler` where engines' do; both are sans-IO: messages, deaths and
the time go in, `effects` come out. They stand on `session_table` (who is there), `texts` and `history` (what units
were), `pool` (which engines), `recovery` (after a death), `answers` and `record` (what is and was said), `output`
(what was printed), `reports` (status and describe) and `sessions` (the data of all of it). `loop` carries the effects
out, on `processes` (engines) and a socket that `binding` made.
"""
