"""Texts of sessions that stay in their engine when it has leaked, and what is said of each.

``go`` brings about what cannot be moved; where there is an ``end``, that takes it away again.
"""

from __future__ import annotations

UNMOVABLE = {
    "a thread": (
        """
import threading
def go():
    global stop, thread
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name='worker', daemon=True)
    thread.start()
def end():
    global stop, thread
    stop.set()
    thread.join()
    del stop, thread
""",
        "thread",
    ),
    "a process": (
        """
import subprocess, sys
def go():
    global p
    p = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
def end():
    global p
    p.communicate(b'x')
    del p
""",
        "process runs",
    ),
    "an open file": (
        """
import sys
def go():
    global f
    f = open(sys.executable, 'rb')
def end():
    global f
    del f
""",
        "is open",
    ),
    "a hidden file": (
        """
import tempfile, os
def go():
    global fd
    fd = os.open(__import__('sys').executable, os.O_RDONLY)
def end():
    os.close(fd)
""",
        "is open",
    ),
    "a socket": (
        """
import socket
def go():
    global s
    s = socket.socketpair()[0].detach()
def end():
    import os
    os.close(s)
""",
        "socket",
    ),
    "a generator": (
        """
def numbers():
    yield 1
    yield 2
def go():
    global g
    g = numbers()
    next(g)
""",
        "generator",
    ),
    "a lock": (
        """
import threading
lock = threading.Lock()
def go():
    pass
""",
        "lock",
    ),
    "a function made in a call": (
        """
def make(n):
    return lambda: n
def go():
    global f
    f = make(3)
""",
        "f is not there",
    ),
    "a class made in a call": (
        """
def go():
    global C
    class C:
        pass
""",
        "C is not there",
    ),
    "a field made in a call": (
        """
def go():
    global x
    x = ti.field(ti.f32, 3)
    x.fill(1)
""",
        "x is not there",
    ),
    "an ndarray made in a call": (
        """
def go():
    global x
    x = ti.ndarray(ti.f32, 3)
""",
        "x is not there",
    ),
    "an array that shares memory": (
        """
a = np.zeros(4)
def go():
    global b
    b = a[1:3]
""",
        "share",
    ),
    "a view with gaps": (
        """
def go():
    global b
    b = np.zeros(8)[::2]
""",
        "gaps",
    ),
    "an array of objects": (
        """
def go():
    global b
    b = np.array([object()])
""",
        "objects",
    ),
    "a constant that is compiled in": (
        """
dt = 1.0
@ti.kernel
def use() -> ti.f32:
    return dt
def go():
    global dt
    use()
    dt = 2.0
""",
        "use has values compiled in",
    ),
    "an attribute that is compiled in": (
        """
@ti.data_oriented
class S:
    def __init__(self):
        self.dt = 1.0
    @ti.kernel
    def use(self) -> ti.f32:
        return self.half()
    @ti.func
    def half(self):
        return self.dt / 2
s = S()
def go():
    s.use()
    s.dt = 2.0
""",
        "S.use has values compiled in",
    ),
    "the folder": (
        """
import os
was = os.getcwd()
def go():
    os.chdir('/')
def end():
    os.chdir(was)
""",
        "folder",
    ),
    "the environment": (
        """
import os
def go():
    os.environ['A_B'] = '1'
def end():
    del os.environ['A_B']
""",
        "environ",
    ),
    "numpy's settings": (
        """
def go():
    np.seterr(all='raise')
def end():
    np.seterr(all='warn', under='ignore')
""",
        "seterr",
    ),
    "an own way to be copied": (
        """
class C:
    def __reduce__(self):
        return (C, ())
class D(C, list):
    pass
d = D()
def go():
    pass
""",
        "__reduce__",
    ),
}
