"""The quick start of PROTOCOL.md with zmq and msgpack alone: ``python raw_client.py tcp://127.0.0.1:5555 DEALER``."""

import itertools
import struct
import sys

import msgpack
import zmq

SOURCE = """
@ti.kernel
def add_base(x: ti.types.ndarray(), base: ti.f32):
    for i in range(x.shape[0]):
        x[i] += {what}
"""

ids = itertools.count(1)
address, kind = sys.argv[1:]
socket = zmq.Context.instance().socket({"DEALER": zmq.DEALER, "REQ": zmq.REQ}[kind])
socket.setsockopt(zmq.LINGER, 0)
socket.setsockopt(zmq.RCVTIMEO, 60_000)
socket.connect(address)


def ask(op, buffers=(), **fields):
    """The result of one request, and the buffers that came with it."""
    number = next(ids)
    socket.send_multipart([msgpack.packb({"v": 1, "op": op, "id": number, **fields}), *buffers])
    header, *buffers = socket.recv_multipart()
    reply = msgpack.unpackb(header)
    if reply["id"] != number or reply["op"] != "ok":
        sys.exit(f"{reply.get('code')}: {reply.get('message')}")
    return reply["result"], buffers


def extension(code, *content):
    return msgpack.ExtType(code, msgpack.packb(content))


token = ask("hello", client="raw")[0]["token"]
numbers = {"array": extension(1, "f32", [10], "C", 0), "buffers": [struct.pack("<10f", *range(10))]}
x = ask("put", token=token, **numbers)[0]["holding"]["handle"]
for what in ("base", "2 * base"):
    ask("put", token=token, target=x, **numbers)
    ask("compile", token=token, source=SOURCE.format(what=what))
    ask("run", token=token, target=extension(5, None, "add_base"), args=[x, 5.0])
    result, buffers = ask("fetch", token=token, target=x)
    dtype, shape, order, buffer = msgpack.unpackb(result["value"].data)[:4]
    assert (dtype, shape, order) == ("f32", [10], "C")
    print(*struct.unpack("<10f", buffers[buffer]))
ask("bye", token=token, end=True)
