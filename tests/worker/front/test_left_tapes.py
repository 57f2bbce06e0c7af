"""Tapes of clients that are gone: closed by the worker, in sessions that others keep alive."""

from __future__ import annotations

from front_bench import FrontBench
from tiremote.protocol.codec import decode_request
from tiremote.protocol.messages import Bye, CloseTape, OpenTape, Ping, Request
from tiremote.protocol.receipts import ArrayHolding
from tiremote.protocol.values import Handle, Name
from tiremote.worker.front.settings import Settings
from tiremote.worker.link import Changes

TAPE = Handle(kind="object", id="s.1.7")
LEASE = 100.0


def opened(bench: FrontBench, token: str) -> None:
    """A client opens a tape."""
    bench.ask(OpenTape(id="open", token=token, loss=(Name(unit="sim", name="loss"),)))
    bench.done(bench.work[-1], changes=Changes(arrays=(ArrayHolding(handle=TAPE),)))


def sent(bench: FrontBench, since: int) -> list[Request]:
    """What engines were given from then on."""
    return [decode_request([work.header]) for _, work in bench.work[since:]]


def two(bench: FrontBench) -> tuple[str, str]:
    """Two clients of one session."""
    return bench.hello(session="lab", lease=LEASE), bench.hello(session="lab", identity=b"other")


def closed(bench: FrontBench, since: int, token: str) -> None:
    """Exactly that tape was closed, in the name of its client and without gradients; the engine does so."""
    (request,) = sent(bench, since)
    assert isinstance(request, CloseTape)
    assert (request.tape, request.token, request.evaluate) == (TAPE, token, False)
    bench.done(bench.work[-1], changes=Changes(dropped=(TAPE.id,)))
    told = len(bench.sent)
    bench.wait(2 * LEASE)
    assert (len(bench.work), len(bench.sent)) == (since + 1, told)


def test_the_tape_of_a_killed_client_goes_with_the_lease() -> None:
    """Not before it: until then the client may come back; a client that is heard keeps its tape."""
    bench = FrontBench()
    killed, other = two(bench)
    opened(bench, killed)
    bench.wait(LEASE / 2)
    bench.ask(Ping(id="here", token=killed))
    before = len(bench.work)
    for waited in range(3):
        assert bench.front.next_deadline(bench.now) == bench.now + LEASE - 30 * waited
        bench.wait(30)
        bench.ask(Ping(id=f"ping{bench.now}", token=other), b"other")
        assert len(bench.work) == before
    bench.wait(10)
    closed(bench, before, killed)


def test_the_tape_of_a_client_that_says_bye_goes_at_once() -> None:
    """Its session goes on, and nobody is told."""
    bench = FrontBench()
    leaving, _ = two(bench)
    opened(bench, leaving)
    before = len(bench.work)
    bench.ask(Bye(id="bye", token=leaving))
    bench.wait(0)
    closed(bench, before, leaving)


def test_the_tape_of_a_client_whose_seat_is_taken_goes() -> None:
    """Where there are as many clients as may be, the one that was not heard for longest makes room."""
    bench = FrontBench(Settings(seats=2))
    killed, _ = two(bench)
    opened(bench, killed)
    bench.wait(1)
    bench.ask(Ping(id="ping", token=killed, received=("open",)))
    before = len(bench.work)
    bench.hello(session="lab", identity=b"third")
    bench.wait(0)
    assert len(bench.work) == before
    bench.hello(session="lab", identity=b"fourth")
    bench.hello(session="lab", identity=b"fifth")
    bench.wait(0)
    closed(bench, before, killed)


def test_a_tape_is_not_closed_while_its_client_is_awaited_for() -> None:
    """A call that takes longer than the lease is answered first: whoever sent it may collect the answer."""
    bench = FrontBench()
    killed, other = two(bench)
    opened(bench, killed)
    bench.run(killed, tape=TAPE)
    running, before = bench.work[-1], len(bench.work)
    for number in range(4):
        bench.wait(LEASE / 2)
        bench.ask(Ping(id=f"ping{number}", token=other), b"other")
    assert len(bench.work) == before
    bench.done(running)
    bench.wait(0)
    closed(bench, before, killed)


def test_a_tape_that_is_gone_is_not_closed_again() -> None:
    """Its client has closed it, or its engine is lost."""
    for end in ("close", "die"):
        bench = FrontBench()
        leaving, _ = two(bench)
        opened(bench, leaving)
        if end == "close":
            bench.ask(CloseTape(id="close", token=leaving, tape=TAPE))
            bench.done(bench.work[-1], changes=Changes(dropped=(TAPE.id,)))
        else:
            bench.die(bench.work[-1][0])
        before = len(bench.work)
        bench.ask(Bye(id="bye", token=leaving))
        bench.wait(0)
        assert not sent(bench, before)
