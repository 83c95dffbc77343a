"""Memory that is lent out: never more than there is, to whoever came first, and all of it given back."""

import threading
import time
import tracemalloc

import pytest

from shared.errors import NoSlotError
from shared.memory import Lanes, Memory
from shared.parked.poison_policy import Nature, nature_of
from shared.payload import Codec, Frame, FrameIndex, Limits, Payload, StoredBlob, reading
from shared.payload.frames import compress, expand_at_most, expand_exactly
from shared.pipeline.plan import Plan, plan_of
from tests.waiting import LIMIT, until


def test_what_is_held_together_is_never_more_than_there_is():
    """Fifty threads that want more than a tenth each: the sum stays within the bound, and all get their turn."""
    memory, lent, done = Memory(100), [], []

    def work(number):
        with memory.hold(11 + number % 7):
            lent.append(memory._lent)
            time.sleep(0.001)
        done.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert (len(done), memory._lent) == (50, 0)
    assert max(lent) <= 100


def test_who_wants_more_than_there_is_has_all_of_it():
    """It is let through alone, or it would wait for ever."""
    memory = Memory(100)
    with memory.hold(1000):
        assert memory._lent == 100
    assert memory._lent == 0


def test_what_is_large_is_not_overtaken():
    """Small work that comes later waits behind it, however much room there would be."""
    memory, order, threads = Memory(100), [], []

    def work(name, wanted):
        with memory.hold(wanted):
            order.append(name)

    with memory.hold(60):
        for name, wanted in (("large", 90), ("small", 10)):
            threads.append(threading.Thread(target=work, args=(name, wanted)))
            threads[-1].start()
            until(lambda: len(memory._waiting) == len(threads))
        assert order == []
    for thread in threads:
        thread.join(LIMIT)
    assert order == ["large", "small"]


def test_what_turns_out_not_to_be_needed_is_given_back_at_once():
    """And once only; nothing makes a hold larger than it was."""
    memory = Memory(100)
    with memory.hold(80) as held:
        held.keep(30)
        held.keep(90)
        assert memory._lent == 30
    assert memory._lent == 0


def test_an_error_gives_back_what_was_held():
    """Whatever the work fails with."""
    memory = Memory(100)
    with pytest.raises(KeyError), memory.hold(80):
        raise KeyError("x")
    assert memory._lent == 0


def test_who_waits_too_long_gives_its_message_back_and_parks_nothing():
    """Another delivery may find room; those behind it go on."""
    memory = Memory(100, patience=0)
    with memory.hold(60):
        with (
            pytest.raises(
                NoSlotError, match="could not reserve 50 bytes of memory within 0 s: other messages hold 60 of 100"
            ) as late,
            memory.hold(50),
        ):
            pass
        with memory.hold(40):
            assert memory._lent == 100
    assert nature_of(late.value) is Nature.TRANSIENT


def test_nothing_small_waits_for_something_large():
    """Two lanes: a large job that is finished for minutes holds up large ones only."""
    lanes = Lanes(10, 100, 5)
    with lanes.hold(100), lanes.hold(4), lanes.hold(4):
        pass


@pytest.mark.parametrize("items", [1_000, 4_000])
def test_an_ordinary_chunk_waits_for_nobody(items):
    """All that an instance works on at a time have their memory at once: they are no slower than without a bound."""
    chunk = reading.of_chunk(items * 40, items * 170, items, Limits())
    assert 24 * chunk <= reading.WORK
    # Of 500 accounts, as billing has them.
    assert 24 * reading.of_finish(500 * 65) <= reading.SMALL_FINISHES


def test_the_largest_of_each_fits():
    """What is asked for is clamped to all there is; nothing within the limits needs more than that."""
    limits = Limits()
    assert reading.of_chunk(limits.chunk_stored_most, 64 * 1024 * 1024, limits.frame_items_most, limits) <= reading.WORK
    assert reading.of_plan(limits.frames_most, limits.items_most, 1, limits) <= reading.WORK
    rows = reading.most_rows(limits.chunks_most, limits.items_most, limits)
    assert reading.of_dispatch(limits.chunks_most, rows) <= reading.WORK


@pytest.mark.parametrize("chunk_items", [70, 100, 700])
def test_a_plan_takes_no_more_than_is_reserved_for_it(chunk_items):
    """Read back for a dispatch: its bytes, and a row for each frame of each chunk. Made: the index too."""
    limits, frames = Limits(), 6_000
    index = FrameIndex(tuple(Frame(n * 3000, 3000, 100, f"{n:064x}") for n in range(frames)))
    payload = Payload(index, Codec.ZSTD, StoredBlob("j/x", "e", index.stored), None, "0" * 64)
    tracemalloc.start()
    plan = plan_of("j", "billing", payload, chunk_items, limits)
    chunks, rows, stored = len(plan.chunks), sum(len(chunk.frames) for chunk in plan.chunks), plan.encode()
    made = tracemalloc.get_traced_memory()[1] + frames * 350
    del plan
    tracemalloc.reset_peak()
    Plan.decode(stored)
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows <= reading.most_rows(chunks, index.items, limits)
    assert read <= reading.of_dispatch(0, rows)
    assert made <= reading.of_plan(frames, index.items, chunk_items, limits)


@pytest.mark.parametrize("codec", Codec)
def test_a_frame_says_how_much_it_holds(codec):
    """All that Sluice writes say it exactly, so that a chunk holds what it needs and not what it might."""
    text = b'{"a":1}\n' * 1000
    frame = compress(text, codec)
    assert expand_exactly(frame, codec, Limits()) == len(text) <= expand_at_most(len(frame), codec, Limits())
    assert expand_exactly(b"", codec, Limits()) <= expand_at_most(0, codec, Limits())
