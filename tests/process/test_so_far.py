"""A chunk of which transactions failed keeps the outcome of the others: the next try calls only for those that are left."""

import json
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given, strategies as st

from shared.errors import StorageUnavailableError
from shared.messages import PortionMessage, encode
from shared.parked.entry import EntryState, chunk_key, job_note
from shared.parked.poison_policy import DEFAULT_POLICY
from shared.payload import Limits
from shared.pipeline.failing.put_off import Waits
from shared.pipeline.failing.so_far import SoFar, SoFarStore
from shared.pipeline.failing.work_stages import work_stages
from shared.pipeline.outputs import Ran, run_in_parts
from shared.pipeline.results import open_content, read_result, unpack_result
from shared.pipeline.streams import LINES as LINES_STREAM, join_rows, split_streams, unpack_lines
from shared.workloads import Line, Rejected
from shared.workloads.isolate import MOST_LEFT
from shared.zstd import pack
from tests.faults.memory.storage import MemoryStorage
from tests.process.world import MemoryWorld, Sale

TEXTS = [*(f'{{"shop":"s{n % 3}","amount":"{n}.10"}}' for n in range(10)), '{"shop":"","amount":"5.00"}', "{", "{"]
LINES = [text.encode() for text in TEXTS]
FIRST = 100
BAD = {Decimal("3.10"), Decimal("7.10")}


@pytest.fixture
def world():
    """One whose workload fails for two sales, and knows the calls for each."""
    made = MemoryWorld(MemoryStorage(), LINES)
    made.bad, made.calls = set(BAD), []

    def fault(sale):
        made.calls.append(sale.amount)
        if sale.amount in made.bad:
            raise ZeroDivisionError

    made.workload.fault = fault
    return made


def stage_of(process, put):
    """Return the stage of chunks, whose messages come to this list."""
    return work_stages(process.ledger, lambda _entry, body: put.append(body), put.append)[-1]


def fail(world, *counts):
    """Have deliveries that fail."""
    for count in counts:
        with pytest.raises(ZeroDivisionError):
            world.deliver(count)


def unfailing():
    """Return the result of the same chunk when nothing fails."""
    world = MemoryWorld(MemoryStorage(), LINES)
    world.deliver()
    return world.told


def same(found, wanted):
    """Check that two runs came to the same."""
    (result, rejections), (other, others) = found, wanted
    assert (result.result.accepted, result.result.rejected) == (other.result.accepted, other.result.rejected)
    assert json.loads(bytes(result.result.partial)) == json.loads(bytes(other.result.partial))
    assert rejections == others


def test_the_next_try_calls_only_for_those_that_are_left(world):
    """Afterwards the result is that of a run in which nothing failed."""
    fail(world, 1)
    assert len(world.calls) == 11
    world.bad.remove(Decimal("3.10"))
    fail(world, 2)
    assert world.calls[11:] == sorted(BAD)
    world.bad.clear()
    world.deliver(3)
    assert world.calls[13:] == [Decimal("7.10")]
    same(world.told, unfailing())


def test_one_that_always_fails_costs_a_call_a_try(world):
    """A chunk of so many makes four calls more until it is parked."""
    world.bad = {Decimal("7.10")}
    fail(world, *range(1, DEFAULT_POLICY.deliveries))
    world.deliver(DEFAULT_POLICY.deliveries)
    assert (world.entry, world.aside.state) == (None, EntryState.OPEN)
    assert len(world.calls) == 11 + DEFAULT_POLICY.deliveries - 1


def test_a_chunk_that_is_put_back_calls_once(world):
    """Its message has the mark of one that was sent before, and keeps what this version does not know."""
    world.bad = {Decimal("7.10")}
    fail(world, 1)
    before, put = len(world.calls), []
    with world.process() as process:
        stage_of(process, put).put_back(None, world.body.replace(b'"job"', b'"later":1.50,"job"'))
    (body,) = put
    assert (json.loads(body)["sluice"]["again"], b'"later":1.50' in body) == (True, True)
    world.bad.clear()
    world.deliver(1, body=body)
    assert world.calls[before:] == [Decimal("7.10")]
    same(world.told, unfailing())


@pytest.mark.parametrize("body", [b"{}", b"no json", b'{"sluice":{}}'])
def test_another_message_of_the_stage_is_put_back_unchanged(world, body):
    """No worker could read it anyway."""
    put = []
    with world.process() as process:
        stage_of(process, put).put_back(None, body)
    assert put == [body]


def test_the_time_of_all_tries_is_the_chunks(world):
    """Else a slow workload would look fast, and get larger chunks."""
    slow = world.workload.fault

    def fault(sale):
        world.clock.advance(1)
        slow(sale)

    world.workload.fault = fault
    fail(world, 1)
    world.bad.clear()
    world.deliver(2)
    assert world.sent[-1].milliseconds == (11 + 2) * 1000


@pytest.mark.parametrize("stored", [b"{}", b"no frame", b'{"left":[3]}'])
def test_what_is_not_readable_is_not_used(world, stored):
    """The whole chunk runs again, as without it."""
    fail(world, 1)
    with world.process() as process:
        container = process.connections.blobs.get_container_client("results")
        container.upload_blob(f"{world.job}/1/0~", stored, overwrite=True)
    world.bad.clear()
    world.deliver(2)
    assert len(world.calls) == 2 * 11
    same(world.told, unfailing())


def test_a_partial_of_another_type_is_not_used(world):
    """The workload was changed meanwhile."""
    fail(world, 1)
    world.bad.clear()
    world.workload.partial, world.workload.combine = int, len
    world.deliver(2)
    assert len(world.calls) == 2 * 11
    assert bytes(world.told[0].result.partial) == b"10"


def test_of_two_deliveries_at_once_the_later_one_changes_nothing(world):
    """The kept answers of the first stay."""
    fail(world, 1)
    failed = Ran(PortionMessage(), PortionMessage(), {}, b"", pieces=())
    with world.process() as late:
        before = late.so_far.find(world.message, world.workload)
        world.bad.remove(Decimal("3.10"))
        fail(world, 2)
        for known in (before, None):
            late.so_far.put(world.message, failed, {103: Waits()}, 0, 0, known)
        (left,) = late.so_far.find(world.message, world.workload).left
    assert left == world.message.first_id + 7


def test_an_outage_of_storage_hides_no_failure(world, monkeypatch):
    """What passed is not kept then, and the next try calls all of them again."""
    with monkeypatch.context() as patch:
        patch.setattr(SoFarStore, "put", Mock(side_effect=StorageUnavailableError("it is down")))
        fail(world, 1)
    world.bad.clear()
    world.deliver(2)
    assert len(world.calls) == 2 * 11


def test_a_suspect_calls_only_for_those_that_are_left(world):
    """As any other chunk, in a process of its own."""
    fail(world, 1)
    with world.process() as process:
        process.attempts.note_begun(job_note(world.job, chunk_key(0, 1)), 2)
    world.bad.clear()
    world.deliver(3)
    assert world.calls[11:] == sorted(BAD)
    same(world.told, unfailing())


@pytest.mark.parametrize("fails_in", ["map", "lines"])
def test_lines_are_kept_too_and_are_those_of_a_run_without_a_failure(world, fails_in):
    """In the order of the transactions, byte for byte: of two such results none differs."""
    fault, made = world.workload.fault, []

    def lines(sale, number, _value):
        made.append(number)
        if fails_in == "lines":
            fault(sale)
        return [Line({"number": number, "shop": sale.shop}), Line({"amount": sale.amount})]

    if fails_in == "lines":
        world.workload.fault = lambda _sale: None
    world.workload.lines = lines
    world.message = msgspec.structs.replace(world.message, lines=True, v=3)
    world.body = encode(world.message)
    fail(world, 1)
    world.bad.remove(Decimal("3.10"))
    fail(world, 2)
    world.bad.clear()
    calls = len(made)
    world.deliver(3)
    assert made[calls:] == [world.message.first_id + 7]
    found, _ = world.told
    numbers = [json.loads(line).get("number") for line in lines_of(world)]
    assert numbers[::2] == [world.message.first_id + n for n in range(10)]
    whole = MemoryWorld(MemoryStorage(), LINES)
    whole.job, whole.workload.lines = world.job, lines
    whole.body = encode(msgspec.structs.replace(whole.message, job=world.job, lines=True, v=3))
    whole.deliver()
    assert whole.told[0].hash == found.hash


def lines_of(world):
    """Return the lines in the last message."""
    packed = open_content("", world.sent[-1].content, world.sent[-1].hash, world.sent[-1].lines)
    text, rest = unpack_result("", packed)
    return list(unpack_lines("", split_streams("", read_result(text)[0].streams, rest)["lines"]))


def test_a_blob_with_other_lines_is_not_used(world):
    """Neither a part of them, nor those of a chunk that makes none."""
    fail(world, 1)
    with world.process() as process:
        container = process.connections.blobs.get_container_client("results")
        stored = container.download_blob(f"{world.job}/1/0~").readall()
        container.upload_blob(f"{world.job}/1/0~", stored + pack(b"{}\n", level=1), overwrite=True)
        assert process.so_far.find(world.message, world.workload) is None


class Ordered:
    """Keeps the numbers in their order, and fails for some. Its `merge` changes what it is given."""

    name, transaction, partial, sums = "ordered", Sale, list[int], ("amount",)

    def __init__(self):
        self.bad, self.bad_values, self.bad_lines = frozenset(), frozenset(), frozenset()

    def map(self, sale, number):
        """Fail, reject or keep."""
        if number in self.bad:
            raise ZeroDivisionError
        return number if sale.shop else Rejected("no_shop", "the shop is empty")

    def combine(self, mapped):
        """Keep all, or fail for one of them."""
        if self.bad_values & set(mapped):
            raise ZeroDivisionError
        return list(mapped)

    def merge(self, left, right):
        """Keep all of both."""
        left.extend(right)
        return left

    def lines(self, _sale, number, _value):
        """Make as many as the last digit says, and fail for some."""
        for n in range(number % 3):
            yield Line({"number": number, "n": n})
        if number in self.bad_lines:
            yield Line([]) if number % 2 else 1 / 0


numbers = st.frozensets(st.integers(FIRST, FIRST + 19))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    numbers,
    st.lists(st.tuples(numbers, numbers, numbers), max_size=3),
)
def test_pieces_are_joined_in_the_order_of_the_transactions(sizes, rejected, tries):
    """Whatever fails how often, in parts or at once, the outcome is that of a run without a failure."""
    texts = iter(b"{" if n in rejected and n % 2 else sale_of(n, rejected) for n in range(FIRST, FIRST + 99))
    parts = [list(islice(texts, size)) for size in sizes]
    workload, so_far = Ordered(), None
    wanted = run_in_parts(workload, parts, FIRST, Limits(), makes_lines=True)
    for workload.bad, workload.bad_values, workload.bad_lines in [*tries, (frozenset(),) * 3]:
        left = None if so_far is None else so_far.left
        ran = run_in_parts(workload, parts, FIRST, Limits(), left=left, makes_lines=True)
        ran = ran if so_far is None else so_far.add(workload, ran)
        if not ran.left:
            assert replace(ran, streams={}) == replace(wanted, streams={})
            assert content_of(ran.streams) == content_of(wanted.streams)
            return
        made = [json.loads(line)["number"] for line in content_of(join_rows(ran.rows))]
        passed = sorted({*wanted.partial} - {one.number for one in ran.left})
        assert made == [number for number in passed for _ in range(number % 3)]
        failed = {one.number: Waits() for one in ran.left}
        so_far = SoFar(ran.accepted, ran.rejected, ran.pieces, ran.rejections, failed, 0, 0, "", ran.rows)
        assert [number for piece in ran.pieces for number in piece.partial] == sorted({*wanted.partial} - failed.keys())


def content_of(streams):
    """Return the lines of streams."""
    return list(unpack_lines("", streams[LINES_STREAM].read())) if streams else []


def sale_of(number, rejected):
    """Return a line, without a shop if it is to be rejected."""
    return json.dumps({"shop": "" if number in rejected else "s", "amount": f"{number}.10"}).encode()


def test_where_too_many_fail_nothing_is_kept(world):
    """That is no fault of single transactions, and each would have a piece of its own."""
    workload = Ordered()
    workload.bad = frozenset(range(0, 2 * MOST_LEFT + 2, 2))
    ran = run_in_parts(workload, [[sale_of(n, ()) for n in range(2 * MOST_LEFT + 2)]], 0, Limits())
    assert (len(ran.left), ran.pieces) == (MOST_LEFT + 1, None)
    with world.process() as process:
        process.so_far.put(world.message, ran, {one.number: Waits() for one in ran.left}, 0, 0, None)
        assert process.so_far.find(world.message, workload) is None


def test_pieces_that_cannot_be_combined_are_not_kept():
    """The chunk runs again as a whole, and its failure is that of its transaction."""
    workload = Ordered()
    workload.bad = {1}
    workload.combine = lambda mapped: list(mapped) if len(mapped) > 1 else 1 / 0
    ran = run_in_parts(workload, [[sale_of(n, ()) for n in range(4)]], 0, Limits())
    assert ([one.number for one in ran.left], ran.pieces) == ([1], None)


@pytest.mark.parametrize(
    "change",
    [
        {"left": []},
        {"left": [FIRST + 3]},
        {"left": [FIRST + 3, FIRST + 99]},
        {"workload": "other"},
        {"pieces": [[1, "x"]]},
    ],
    ids=str,
)
def test_a_blob_that_cannot_be_of_this_chunk_is_not_used(world, change):
    """Each transaction must be counted once: accepted, rejected or left."""
    fail(world, 1)
    with world.process() as process:
        container = process.connections.blobs.get_container_client("results")
        text, _ = unpack_result("", container.download_blob(f"{world.job}/1/0~").readall())
        head, _, rest = text.partition(b"\n")
        changed = json.dumps({**json.loads(head), **change}).encode()
        container.upload_blob(f"{world.job}/1/0~", pack(changed + b"\n" + rest, level=1), overwrite=True)
    world.bad.clear()
    world.deliver(2)
    assert len(world.calls) == 2 * 11
    same(world.told, unfailing())
