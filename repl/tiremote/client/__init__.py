"""The Python client: kernels, arrays and results on a worker, used as if they were here. Never imports Taichi.

From the outside in: `connect` opens a `Session` (module ``session``) on an address, or on a worker of its own
(``local_worker``). A session hands out `RemoteUnit` and `RemoteKernel` (``units``), `RemoteArray` and `RemoteField`
(``arrays``), and ``gpu.ti``, Taichi's names without Taichi (``facade``, ``type_names``). Those speak through one
``exchange``, which makes requests, futures and typed results; ``arguments`` packs what a call is given and writes back
what it changed, ``transfer`` moves large arrays in pieces, ``regions`` turns NumPy indexing into the wire's,
``loading`` is the half of a session that loads source, ``directory`` knows what the session holds, ``releases`` frees
what was garbage-collected, ``versions`` reads the texts of before, ``collecting`` takes up requests of before,
``watch`` loads files as they are saved, ``lane`` takes small calls straight to the engine. Under it ``core`` decides
without a socket or a clock what is sent, sent again and given up, and ``link`` has the socket, and moves its messages
on a thread of its own or on one that waits.
"""

from tiremote.client.access import In, InOut, Out
from tiremote.client.arrays import RemoteArray, RemoteField
from tiremote.client.connect import connect
from tiremote.client.facade import Facade
from tiremote.client.output import print_output
from tiremote.client.request_future import RequestFuture
from tiremote.client.session import Session
from tiremote.client.units import RemoteKernel, RemoteObject, RemoteUnit
from tiremote.client.watch import Reload, Watch

__all__ = [
    "Facade",
    "In",
    "InOut",
    "Out",
    "Reload",
    "RemoteArray",
    "RemoteField",
    "RemoteKernel",
    "RemoteObject",
    "RemoteUnit",
    "RequestFuture",
    "Session",
    "Watch",
    "connect",
    "print_output",
]
