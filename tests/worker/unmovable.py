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
    "a method that was replaced": (
        """
class S:
    def step(self):
        return 1
def faster(self):
    return 2
was = S.step
def go():
    S.step = faster
def end():
    S.step = was
""",
        "S is another",
    ),
    "a property that was replaced": (
        """
class S:
    @property
    def size(self):
        return 1
def other(self):
    return 2
was = S.__dict__['size'].fget
def go():
    S.size = property(other)
def end():
    S.size = property(was)
""",
        "S is another",
    ),
    "bases that were replaced": (
        """
class A:
    pass
class B:
    pass
class S(A):
    pass
def go():
    S.__bases__ = (B,)
def end():
    S.__bases__ = (A,)
""",
        "S is another",
    ),
    "what a member of an enumeration holds": (
        """
import enum
class M(enum.Enum):
    A = [1]
def go():
    M.A.value.append(2)
def end():
    M.A.value.pop()
""",
        "M is another",
    ),
    "an exception": (
        """
class E(Exception):
    pass
def go():
    global last
    try:
        raise E('x') from ValueError('y')
    except E as error:
        last = error
def end():
    global last
    del last
""",
        "an object of E",
    ),
    "a cache": (
        """
import functools
class S:
    @functools.lru_cache
    def f(self, k):
        return [k]
s = S()
def go():
    s.f(1)
def end():
    S.f.cache_clear()
""",
        "S.f has a cache",
    ),
    "a row of an array": (
        """
a = np.zeros(3, [('x', 'f4')])
def go():
    global row
    row = a[1]
def end():
    global row
    del row
""",
        "a row",
    ),
    "a dict that changes what is put into it": (
        """
class D(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)
d = D()
def go():
    d['a'] = 1
""",
        "__setitem__",
    ),
    "an array that is of a class of its own": (
        """
class A(np.ndarray):
    pass
a = np.zeros(3)
def go():
    global b
    b = a.view(A)
def end():
    global b
    del b
""",
        "an object of A",
    ),
    "what a library's objects have compiled in": (
        """
import collections, functools, types
space = types.SimpleNamespace(dt=1.0)
table = collections.OrderedDict(n=1)
queue = collections.deque([1])
class Slots:
    __slots__ = ('dt',)
slots = Slots()
slots.dt = 1.0
def number(n):
    return n
partial = functools.partial(number, 1)
class Lazy:
    @property
    def dt(self):
        return queue[0]
lazy = Lazy()
@ti.kernel
def use() -> ti.f32:
    return space.dt + table['n'] + slots.dt + ti.static(partial()) + lazy.dt
def go():
    use()
changes = [
    (lambda: setattr(space, 'dt', 2.0), lambda: setattr(space, 'dt', 1.0)),
    (lambda: table.update(n=2), lambda: table.update(n=1)),
    (lambda: setattr(slots, 'dt', 2.0), lambda: setattr(slots, 'dt', 1.0)),
    (lambda: partial.keywords.update(n=2), lambda: partial.keywords.clear()),
    (lambda: queue.append(queue.popleft() + 1), lambda: queue.append(queue.popleft() - 1)),
]
def change(number, back):
    changes[number][back]()
go_on = go
def go():
    go_on()
    change(0, False)
def end():
    change(0, True)
""",
        "use has values compiled in",
    ),
}
