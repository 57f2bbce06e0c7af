"""The copies of arrays that the front keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tiremote.protocol.values import Handle, Name, Ref
from tiremote.worker.front.copies import CopyStore, HostCopy
from tiremote.worker.host_copy import Moved, Piece

X = Handle(kind="ndarray", id="s.1.1")
Y = Name(unit="sim", name="y")
Z = Name(unit="sim", name="z")


def part(flat: tuple[int, int] | None = None, target: Ref = X, size: int = 10) -> Moved:
    """A piece of an array of bytes: whole, or a range of it."""
    count = size if flat is None else flat[1] - flat[0]
    return Moved(target=target, dtype="u8", shape=(size,), piece=Piece(dtype="u8", shape=(count,), flat=flat))


class Store(CopyStore):
    """Copies of one session, under short names."""

    def put(self, moved: Moved, data: Any = b"", request: str = "p", session: str = "s") -> HostCopy | None:
        return self.moved(session, moved, data, request=request, op="put", now=1.0)

    def fetch(self, moved: Moved, data: Any = b"", request: str = "f") -> HostCopy | None:
        return self.moved("s", moved, data, request=request, op="fetch", now=2.0)

    def known(self) -> dict[Ref, str | int | None]:
        return {copy.target: copy.request for copy in self.of("s")}


def test_a_whole_array_replaces_what_was_known_of_it() -> None:
    """The newest of what came and went is what would be put back."""
    store = Store(1 << 20)
    store.put(part(), b"old")
    store.changed("s")
    copy = store.fetch(part(), b"new")
    assert copy is not None
    assert store.of("s") == (copy,)
    assert (copy.op, copy.request, [data for _, data in copy.pieces]) == ("fetch", "f", [b"new"])


def test_ranges_that_cover_all_of_it_make_a_copy() -> None:
    """Whatever their order; before the last of them is there, nothing is known."""
    store = Store(1 << 20)
    assert store.put(part((5, 10))) is None
    assert store.put(part((0, 3))) is None
    assert store.known() == {}
    copy = store.put(part((3, 5)), request="last")
    assert copy is not None
    assert store.known() == {X: "last"}
    assert [piece.flat for piece, _ in copy.pieces] == [(5, 10), (0, 3), (3, 5)]


def test_ranges_with_a_run_between_them_make_no_copy() -> None:
    """They are of two moments: an array that never was would be put back."""
    store = Store(1 << 20)
    store.put(part((0, 5)))
    store.changed("s")
    store.put(part((5, 10)))
    assert store.known() == {}


def test_a_part_that_is_put_into_what_is_known_exactly_is_written_over_it() -> None:
    """Put whole, then in part: the copy has both, and is as of the second."""
    store = Store(1 << 20)
    store.put(part(), b"whole", "a")
    copy = store.put(part((2, 4)), b"part", "b")
    assert copy is not None
    assert [data for _, data in copy.pieces] == [b"whole", b"part"]
    assert copy.request == "b"
    again = store.put(part((2, 4)), b"again", "c")
    assert again is not None
    assert [data for _, data in again.pieces] == [b"whole", b"again"]


def test_a_part_that_is_put_after_a_run_leaves_the_copy_as_it_was() -> None:
    """The array has changed since: the copy with the part in it would be of no moment at all."""
    store = Store(1 << 20)
    store.put(part(), b"whole", "a")
    store.changed("s")
    assert store.put(part((2, 4)), b"part", "b") is None
    assert store.known() == {X: "a"}
    assert [data for _, data in store.of("s")[0].pieces] == [b"whole"]


def test_a_part_that_is_fetched_changes_nothing() -> None:
    """It tells nothing that is not known."""
    store = Store(1 << 20)
    store.put(part(), b"whole", "a")
    assert store.fetch(part((2, 4))) is None
    assert store.known() == {X: "a"}


def test_many_parts_do_not_grow_a_copy_for_ever() -> None:
    """Beyond a few times the array's size the copy stays as it was before."""
    store = Store(1 << 30)
    size = 1 << 20
    store.put(part(size=size), b"whole", "a")
    for number in range(0, size - (1 << 16), 4096):
        store.put(part((number, number + (1 << 16)), size=size), b"part", f"b{number}")
    assert store.nbytes < 8 * size
    before = store.known()
    store.put(part((0, 5), size=size), b"part", "later")
    assert store.known() == before


@pytest.mark.parametrize("beside", [(0, 2), (0, 6), (2, 6)])
def test_what_is_put_whole_in_ranges_is_a_copy_however_many_pieces_there_were(beside: tuple[int, int]) -> None:
    """The ranges that come when the copy takes no more, and those before, make the next one: none is left as it was."""
    store = Store(1 << 20)
    store.put(part(), b"whole", "a")
    store.put(part(beside), b"beside", "b")
    for start, stop in ((0, 4), (4, 8), (8, 10)):
        store.put(part((start, stop)), f"{start} to {stop}".encode(), "new")
    held: dict[int, bytes] = {}
    (copy,) = store.of("s")
    for piece, data in copy.pieces:
        held |= dict.fromkeys(range(*(piece.flat or (0, 10))), data)
    assert held == {
        number: b"0 to 4" if number < 4 else b"4 to 8" if number < 8 else b"8 to 10" for number in range(10)
    }
    assert copy.request == "new"


def test_the_oldest_of_the_largest_session_goes_when_there_is_no_more_room() -> None:
    """Others keep theirs; what alone is too large is not kept, and takes nothing from anybody."""
    store = Store(10_000)
    store.put(part(target=Y, size=100), session="other")
    for number in range(5):
        store.put(part(target=Name(unit="sim", name=f"x{number}"), size=2000), request=str(number))
    assert list(store.known().values()) == ["2", "3", "4"]
    assert len(store.of("other")) == 1
    assert store.nbytes <= 10_000
    before = store.known()
    store.put(part(size=20_000))
    assert store.known() == before


def test_what_is_dropped_is_forgotten_with_what_is_inside_it() -> None:
    """By name, with attributes and items; by handle; by unit; and the bytes are given back."""
    store = Store(1 << 20)
    for name in ("y", "y.grad", "y[0]", "yes"):
        store.put(part(target=Name(unit="sim", name=name)))
    store.put(part())
    store.drop("s", Y)
    assert set(store.known()) == {Name(unit="sim", name="yes"), X}
    store.drop_handle("s", X.id)
    store.drop_unit("s", "sim")
    assert (store.known(), store.nbytes) == ({}, 0)


def test_what_is_fetched_from_a_copy_on_the_worker_is_the_arrays_own() -> None:
    """In many pieces, with other work between them: as of when it was copied there."""
    store = Store(1 << 20)
    there = Handle(kind="array", id="s.1.9")
    store.copied("s", there, part(), request="copy", now=1.5)
    store.fetch(part((0, 5), target=there))
    store.changed("s")
    copy = store.fetch(part((5, 10), target=there))
    assert copy is not None
    assert (copy.target, copy.request, copy.at) == (X, "copy", 1.5)
    assert set(store.known()) == {X}


def test_a_newer_copy_is_not_replaced_by_an_older_one() -> None:
    """A fetch that takes long is of when it began."""
    store = Store(1 << 20)
    there = Handle(kind="array", id="s.1.9")
    store.copied("s", there, part(), request="copy", now=0.5)
    store.put(part(), b"newer", "put")
    assert store.fetch(part(target=there)) is None
    assert store.known() == {X: "put"}


def test_copies_come_in_the_order_in_which_they_were_made() -> None:
    """Where two names are one array, the later copy is written last."""
    store = Store(1 << 20)
    store.put(part(target=Y), request="1")
    store.put(part(), request="2")
    store.put(part(target=Y), request="3")
    assert [copy.request for copy in store.of("s")] == ["2", "3"]


def test_a_session_that_ends_leaves_nothing() -> None:
    """Not its copies and not what had begun to come."""
    store = Store(1 << 20)
    store.put(part())
    store.put(part((0, 5), target=Y))
    store.forget("s")
    assert (store.of("s"), store.nbytes) == ((), 0)


def test_a_copy_is_exact_until_something_ran_and_again_when_it_was_put_back() -> None:
    """What nobody lost anything of need not be told."""
    store = Store(1 << 20)
    store.put(part())
    assert store.is_exact("s", X)
    assert not store.is_exact("s", Y)
    store.changed("s")
    assert not store.is_exact("s", X)
    store.was_put_back("s", X)
    store.was_put_back("s", Y)
    assert store.is_exact("s", X)
    assert not store.is_exact("s", Y)


def test_a_field_is_exact_from_its_load_until_it_is_put_into_or_something_ran() -> None:
    """Loading its unit again gives the same."""
    store = Store(1 << 20)
    other = Name(unit="sim", name="z")
    store.loaded("s", "sim")
    assert store.is_exact("s", Y)
    store.put(part((0, 5), target=Y))
    assert not store.is_exact("s", Y)
    assert store.is_exact("s", other)
    store.changed("s")
    assert not store.is_exact("s", other)
    store.loaded("s", "sim")
    assert store.is_exact("s", Y)


THERE = Handle(kind="array", id="s.1.9")


def test_a_copy_on_the_worker_that_some_code_was_given_is_one_of_nothing() -> None:
    """A kernel may write to it: what is fetched of it then is not what the array held."""
    store = Store(1 << 20)
    store.copied("s", THERE, part(), request="copy", now=1.5)
    store.fetch(part((0, 5), target=THERE))
    store.is_given("s", THERE)
    store.changed("s")
    store.fetch(part(target=THERE), b"other")
    assert set(store.known()) == {THERE}


def test_a_copy_on_the_worker_that_is_written_to_is_one_of_nothing() -> None:
    """By a put."""
    store = Store(1 << 20)
    store.copied("s", THERE, part(), request="copy", now=1.5)
    store.put(part((0, 5), target=THERE))
    store.fetch(part(target=THERE), b"other")
    assert set(store.known()) == {THERE}


def test_what_is_fetched_of_an_array_that_is_gone_does_not_bring_it_back() -> None:
    """Its name may be that of another array now."""
    store = Store(1 << 20)
    store.copied("s", THERE, part(target=Y), request="copy", now=1.5)
    store.fetch(part((0, 5), target=THERE))
    store.drop_unit("s", "sim")
    store.fetch(part((5, 10), target=THERE))
    assert Y not in store.known()


def test_an_array_that_gets_the_contents_of_another_has_its_copy() -> None:
    """A large field is put into a host array first, in pieces."""
    store = Store(1 << 20)
    store.put(part((0, 5), target=THERE), b"first")
    store.put(part((5, 10), target=THERE), b"second")
    into = replace(part(target=Y), source=THERE)
    assert store.put_from("s", into, request="put", now=1.0) is not None
    store.drop_handle("s", THERE.id)
    (copy,) = store.of("s")
    assert (copy.target, [data for _, data in copy.pieces]) == (Y, [b"first", b"second"])
    store.put(part(target=THERE))
    store.changed("s")
    assert store.put_from("s", into, request="later", now=2.0) is None
    assert store.known()[Y] == "put"


def test_an_array_that_came_in_many_pieces_is_patched_as_well() -> None:
    """Only what was put into it afterwards counts."""
    store = Store(1 << 30)
    size = 4000 * 1000
    for number in range(0, size, 4000):
        store.put(part((number, number + 4000), size=size), b"part")
    copy = store.put(part((1, 2), size=size), b"x", "patch")
    assert copy is not None
    assert len(copy.pieces) == 1001


def test_what_has_begun_to_come_and_was_left_goes_before_what_came_later() -> None:
    """A transfer that its client gave up takes no room for ever."""
    store = Store(10_000)
    store.put(part((0, 6_000), size=9_000), b"begun")
    store.put(part(target=Y, size=6_000), b"whole")
    assert set(store.known()) == {Y}
    assert store.put(part((6_000, 9_000), size=9_000)) is None
    assert store.nbytes <= 10_000


def test_an_array_that_was_written_to_in_another_way_is_not_patched() -> None:
    """A put that is too large to be kept makes the copy one of before."""
    store = Store(4_000)
    store.put(part(size=2_000), b"whole")
    wide = replace(part(size=2_000), piece=Piece(dtype="f64", shape=(2_000,), cast=True))
    assert store.put(wide) is None
    assert not store.is_exact("s", X)
    assert store.put(part((0, 1), size=2_000), b"x", "later") is None
    assert store.known() == {X: "p"}


def test_small_pieces_do_not_keep_the_memory_that_they_came_in() -> None:
    """ZeroMQ reads many small messages at once; a view of one would hold them all."""
    store = Store(1 << 20)
    memory = bytearray(b"much memory" * 1000)
    store.put(part(), memoryview(memory)[:10])
    ((_, data),) = store.of("s")[0].pieces
    assert data == bytes(memory[:10])
    memory.clear()


def test_large_pieces_are_not_copied() -> None:
    """They lie in memory of their own."""
    store = Store(1 << 20)
    memory = bytearray(100_000)
    store.put(part(size=100_000), memoryview(memory))
    with pytest.raises(BufferError):
        memory.clear()


def test_a_lost_engine_ends_what_was_under_way() -> None:
    """Nobody will fetch the rest of a copy that went with it; what was whole stays."""
    store = Store(1 << 20)
    store.put(part(target=Y))
    store.copied("s", THERE, part(), request="copy", now=1.5)
    store.fetch(part((0, 5), target=THERE))
    store.engine_lost("s")
    store.fetch(part((5, 10), target=THERE))
    assert set(store.known()) == {Y}
    assert not store.is_stand_in("s", THERE)


def crashed(max_bytes: int, nbytes: int = 100) -> Store:
    """A store with two copies, of 512 and 10 bytes each, and a request of so many bytes that was lost then."""
    store = Store(max_bytes)
    store.put(part(), b"0123456789", "x")
    store.put(part(target=Y), b"9876543210", "y")
    store.keep_crash("s", b"header", [b"buffer"], nbytes)
    return store


def of_crash(store: Store) -> dict[Ref, list[bytes]]:
    """The copies that are kept for an explanation, by array."""
    kept = store.of_crash("s")
    assert kept is not None
    return {copy.target: [bytes(data) for _, data in copy.pieces] for copy in kept.copies()}


def test_the_copies_of_a_crash_stay_as_they_were() -> None:
    """They cost nothing until the array has another copy, or none."""
    store = crashed(1 << 20)
    before = store.nbytes
    assert before == 2 * 522 + 100
    store.put(part((0, 2)), b"ab")
    assert store.nbytes == before + 522 + 514
    store.drop("s", Y)
    assert store.nbytes == before + 522 + 514
    assert of_crash(store) == {X: [b"0123456789"], Y: [b"9876543210"]}
    assert store.nbytes_of("s") == store.nbytes


def test_what_only_a_crash_needs_makes_room_first() -> None:
    """Its copies, then its request; what would be put back stays."""
    store = crashed(2 * 522 + 100)
    store.put(part(), b"abcdefghij")
    assert of_crash(store) == {Y: [b"9876543210"]}
    kept = store.of_crash("s")
    assert kept is not None
    assert kept.message == (b"header", (b"buffer",))
    store.put(part(target=Z, size=1), b"z")
    assert kept.message is None
    assert set(store.known()) == {X, Z}
    assert store.nbytes <= 2 * 522 + 100


def test_a_second_crash_takes_the_place_of_the_first() -> None:
    """And the end of the session that of both."""
    store = crashed(1 << 20)
    store.put(part(), b"abcdefghij")
    store.keep_crash("s", b"header", [], 7)
    assert store.nbytes == 2 * 522 + 7
    assert of_crash(store)[X] == [b"abcdefghij"]
    store.forget("s")
    assert store.nbytes == 0
    assert store.of_crash("s") is None
