"""A chunk of which few transactions fail for good ends with the others, and a replay runs only those few."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from os import urandom

import msgspec
import pytest

from shared.app import Stores
from shared.app.app import build_entry_reader
from shared.errors import NoSlotError, PutOffError, ResultNotSentError
from shared.ledger import JobState
from shared.messages import NEVER_HALTED, Delivery, decode
from shared.operating.job_acts import OutputKind
from shared.operating.replay import ReplayPace, Selection
from shared.parked.entry import EntryState, chunk_key, chunk_of_key, transactions_key
from shared.parked.poison_policy import DEFAULT_POLICY, KillerError
from shared.pipeline.failing.work_stages import work_stages
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.results import ResultStore
from shared.workloads import Line
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan
from tests.faults.sales import Sales
from tests.faults.world import SETTINGS, World, sales
from tests.process.test_so_far import fail, world as failing_world

LAST = DEFAULT_POLICY.deliveries
#: A world whose workload fails for two of thirteen sales, and knows its calls.
world = failing_world
SEVENTH = Decimal("7.10")


class Counting(Sales):
    """Counts the calls for each sale, and fails for shops as it is told."""

    sums = ("amount",)

    def __init__(self, note=lambda *_: None):
        super().__init__(note)
        self.calls, self.how = [], "map"

    def map(self, sale, number):
        """Count."""
        self.calls.append(number)
        return super().map(sale, number) if self.how == "map" else sale

    def combine(self, mapped):
        """Fail here, if so told."""
        if self.how == "combine" and any(sale.shop in self.breaks_at for sale in mapped):
            error = self.breaks_at["odd"]()
            raise error
        return super().combine([sale if self.how == "map" else self._sold(sale) for sale in mapped])

    def _sold(self, sale):
        return super().map(sale, 0)


class Awaited(Counting):
    """One whose `map` waits."""

    async def map(self, sale, number):
        """Count."""
        await asyncio.sleep(0)
        return super().map(sale, number)


class App(World):
    """The whole app in memory, whose chunks have as many transactions as a test wants."""

    workload = Counting

    def __init__(self, chunk, workload=Counting):
        self.settings = replace(SETTINGS, chunk_items=chunk)
        self.workload = workload
        super().__init__(MemoryStorage(), Journal())

    @property
    def job(self):
        """The job's row."""
        with self.app() as app:
            return app.stores.ledger.read("nightly")


def published(count, chunk, workload=Counting, error=KeyError, bad=None):
    """Return an app that worked on a job with one bad transaction, as far as it could."""
    made = App(chunk, workload)
    made.sales.breaks_at = {"odd": error}
    with made.app() as app:
        shops = ["odd" if n == (count // 2 if bad is None else bad) else "x" for n in range(count)]
        app.submit("nightly", sales(*shops))
        work(app)
    return made


def work(app):
    """Let the host work, in a thread as in the app: in the main one `sys.exit` ends the process."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(app.host().run).result()


def replayed(made):
    """Replay what is parked, and return the entries that are still open."""
    with made.app() as app:
        operator = app.operator()
        list(operator.replay(Selection(), ReplayPace(patience=5), by="ann"))
        app.host().run()
        return operator.select(Selection())


@pytest.mark.parametrize("workload", [Counting, Awaited])
@pytest.mark.parametrize("error", [KeyError, SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_one_bad_transaction_costs_one(workload, error):
    """The others are accepted and all sums are proven. Its mended replay is one call, and completes the job."""
    count, chunk = 400, 100
    made = published(count, chunk, workload, error)
    job = made.job
    assert (job.state, job.revision, job.parked_chunks, job.aside) == (JobState.COMPLETED_WITH_PARKED, 1, 0, 1)
    assert (job.totals.accepted.items, job.totals.parked.items) == (count - 1, 1)
    assert not job.totals.has_unknown_sums
    assert sum(one.sums["amount"] for one in (job.totals.accepted, job.totals.parked)) == job.declared["amount"]
    of_its_chunk = [number for number in made.sales.calls if job.id_base + 200 <= number < job.id_base + 300]
    assert len(of_its_chunk) == chunk + LAST - 1
    calls = len(made.sales.calls)
    made.sales.breaks_at = {}
    assert replayed(made) == []
    assert made.sales.calls[calls:] == [job.id_base + 200]
    job = made.job
    assert (job.state, job.revision, job.aside) == (JobState.COMPLETE, 2, None)
    assert (job.totals.accepted.items, job.totals.accepted.sums) == (count, job.declared)
    made.close()


def read_parts(made, kind):
    """Return the lines of these parts of the newest revision."""
    with made.app() as app:
        job = app.stores.ledger.read("nightly")
        return [json.loads(line) for line in b"".join(app.stores.output_reader.read(job, kind)).splitlines()]


def test_the_outputs_list_what_was_set_aside():
    """With its line, its reason and its place. The next revision has none."""
    made = published(6, 3, bad=4)
    (parked,) = read_parts(made, OutputKind.PARKED)
    job = made.job
    assert (parked["number"], parked["reason"], parked["found"]) == (job.id_base + 4, "failed:KeyError", "KeyError: ")
    assert json.loads(parked["line"]) == {"shop": "odd", "amount": "5.10"}
    assert parked["place"].startswith("sales.py:")
    assert len(read_parts(made, OutputKind.OUTPUT)) == 5
    made.sales.breaks_at = {}
    replayed(made)
    assert read_parts(made, OutputKind.PARKED) == []
    assert len(read_parts(made, OutputKind.OUTPUT)) == 6
    made.close()


class Lined(Counting):
    """One that makes a line of each sale."""

    size = 0

    def lines(self, sale, number, _value):
        """Make it."""
        yield Line({"shop": sale.shop, "number": number, "text": urandom(self.size // 2).hex()})


class LongLined(Lined):
    """One whose lines are read apart from the rest of a result, and travel in blobs."""

    size = 300_000


@pytest.mark.parametrize("workload", [Lined, LongLined])
def test_the_others_have_their_lines(workload):
    """What passes later has its line at the end of its chunk's."""
    made = published(6, 3, workload, bad=3)
    first = made.job.id_base
    assert [line["number"] - first for line in read_parts(made, OutputKind.LINES)] == [0, 1, 2, 4, 5]
    assert (made.job.totals.accepted.items, made.job.aside) == (5, 1)
    made.sales.breaks_at = {}
    calls = len(made.sales.calls)
    assert replayed(made) == []
    assert made.sales.calls[calls:] == [first + 3]
    assert [line["number"] - first for line in read_parts(made, OutputKind.LINES)] == [0, 1, 2, 4, 5, 3]
    assert (made.job.state, made.job.revision, made.job.aside) == (JobState.COMPLETE, 2, None)
    made.close()


def test_one_whose_lines_fail_is_set_aside():
    """Without a line, and without a value in the partial."""
    made = App(3, Lined)
    made.sales.lines = lambda sale, number, value: (
        [Line({"number": number}), 1] if sale.shop == "odd" else Lined.lines(made.sales, sale, number, value)
    )
    with made.app() as app:
        app.submit("nightly", sales("x", "x", "x", "x", "odd", "x"))
        work(app)
    assert [line["number"] - made.job.id_base for line in read_parts(made, OutputKind.LINES)] == [0, 1, 2, 3, 5]
    assert (len(read_parts(made, OutputKind.OUTPUT)), made.job.aside) == (5, 1)
    (parked,) = read_parts(made, OutputKind.PARKED)
    assert (parked["number"] - made.job.id_base, parked["reason"]) == (4, "failed:TypeError")
    made.close()


@pytest.mark.parametrize("bad", [1, 4])
def test_a_value_that_cannot_be_combined_is_set_aside(bad):
    """In the first chunk, which estimates, too."""
    made = App(3)
    made.sales.how = "combine"
    made.sales.breaks_at = {"odd": KeyError}
    with made.app() as app:
        app.submit("nightly", sales(*("odd" if n == bad else "x" for n in range(6))))
        app.host().run()
    assert (made.job.totals.accepted.items, made.job.aside) == (5, 1)
    made.close()


def test_what_fails_again_for_its_cause_is_back_at_once():
    """Its replay is one call, and nothing is sent."""
    made = published(6, 3)
    calls, before = len(made.sales.calls), made.job
    (entry,) = replayed(made)
    assert (entry.state, entry.returns, entry.items, entry.key) == (EntryState.OPEN, 1, 1, transactions_key(1, 1))
    assert len(made.sales.calls) == calls + 1
    assert (made.job.revision, made.job.aside) == (before.revision, 1)
    made.close()


def test_of_several_those_that_pass_are_accepted():
    """The others come back, and a later replay calls only for them."""
    made = App(10)
    made.sales.breaks_at = {"odd": KeyError, "bad": ValueError}
    with made.app() as app:
        app.submit("nightly", sales("x", "odd", "x", "bad", "odd", "", "x"))
        app.host().run()
    assert (made.job.aside, made.job.totals.accepted.items, made.job.totals.rejected.items) == (3, 3, 1)
    del made.sales.breaks_at["odd"]
    calls = len(made.sales.calls)
    (entry,) = replayed(made)
    assert (entry.items, entry.reason, made.job.aside, made.job.revision) == (1, "failed:ValueError", 1, 2)
    # Those that passed are not called again.
    assert len(made.sales.calls) == calls + 3 + (LAST - 1)
    made.sales.breaks_at = {}
    calls = len(made.sales.calls)
    assert replayed(made) == []
    assert len(made.sales.calls) == calls + 1
    assert (made.job.state, made.job.revision, made.job.aside) == (JobState.COMPLETE, 3, None)
    made.close()


def test_where_all_fail_the_chunk_is_parked_as_a_whole():
    """That is no fault of single transactions."""
    made = App(2)
    made.sales.breaks_at = {"odd": KeyError}
    with made.app() as app:
        app.submit("nightly", sales("x", "x", "odd", "odd"))
        app.host().run()
    assert (made.job.parked_chunks, made.job.aside, made.job.totals.parked.unknown) == (1, None, 1)
    made.close()


def test_a_job_pauses_when_many_are_set_aside():
    """Resuming forgives them."""
    made = App(10)
    policy = replace(DEFAULT_POLICY, pause_items=1, pause_item_share=0.04)
    made.settings = replace(made.settings, poison=policy)
    made.sales.breaks_at = {"odd": KeyError}
    with made.app() as app:
        app.submit("nightly", sales(*("odd" if n % 5 == 0 else "x" for n in range(40))))
        app.host().run()
    assert (made.job.state, made.job.problem) == (
        JobState.PAUSED,
        "2 of its 40 transactions are parked one by one",
    )
    with made.app() as app:
        app.stores.job_operator.resume("nightly", by="ann", why="mended")
        app.host().run()
    assert (made.job.state, made.job.aside) == (JobState.COMPLETED_WITH_PARKED, 8)
    made.close()


# One chunk, delivery by delivery.


def replays(world):
    """Return the message of the replay, after the entry was marked as one that is replayed."""
    put = []
    with world.process() as process:
        entry = world.aside
        replayed = process.parked.change(entry, replace(entry, state=EntryState.REPLAYED, replays=entry.replays + 1))
        stage = work_stages(process.ledger, lambda _entry, body: put.append(body), None)[1]
        stage.put_back(replayed, process.parked.body(replayed))
    (body,) = put
    return body


@pytest.fixture
def credited(world):
    """A world of which one transaction is set aside, and that is credited."""
    world.bad = {SEVENTH}
    fail(world, *range(1, LAST))
    world.deliver(LAST)
    world.settle()
    return world


def test_the_message_is_that_of_the_chunk_with_a_mark(credited):
    """A worker of 0.4.0 waits for a newer one by its version, and does not run the whole chunk."""
    message = decode(replays(credited))
    assert message == msgspec.structs.replace(credited.message, aside=True, again=True, halts=NEVER_HALTED, v=3)


def test_the_entry_comes_before_the_result(world):
    """Whoever dies between the two leaves an entry too many. The other order would hide a transaction."""
    world.bad, seen = {SEVENTH}, []
    fail(world, *range(1, LAST))
    with world.process() as process:
        send = process.processor._tools.send
        watched = replace(process.processor._tools, send=lambda result: (seen.append(world.aside), send(result)))
        process.processor._tools = watched
        process.processor.handle(Delivery(queue="work-00", message_id="m", body=world.body, count=LAST))
    assert [entry.state for entry in seen] == [EntryState.OPEN]


def test_a_result_without_an_answer_is_stored_and_told_again(world):
    """The next delivery runs nothing. So does that of a replay."""
    world.bad = {SEVENTH}
    fail(world, *range(1, LAST))

    def deliver_unanswered(count, body):
        with world.process() as process:
            tools = process.processor._tools
            process.processor._tools = replace(tools, send=unanswered)
            with pytest.raises(ResultNotSentError):
                process.processor.handle(Delivery(queue="work-00", message_id="m", body=body, count=count))

    def unanswered(_result):
        raise ResultNotSentError("the bus does not answer")

    deliver_unanswered(LAST, world.body)
    calls = len(world.calls)
    world.deliver(LAST + 1)
    (told,) = world.sent
    assert (len(world.calls), told.blob, told.parked.items, told.v) == (calls, f"{world.job}/1/0", 1, 2)
    world.settle()
    world.bad.clear()
    body = replays(world)
    deliver_unanswered(1, body)
    calls = len(world.calls)
    world.deliver(2, body=body)
    (told,) = world.sent
    assert (len(world.calls), told.blob) == (calls, f"{world.job}/1/0+{world.row.hash[:16]}")
    assert (told.extends, told.v) == (world.row.hash, 2)
    world.settle()
    assert (world.row.aside, world.row.totals.accepted.items) == (0, 10)


def test_a_replay_of_what_has_passed_runs_nothing(credited):
    """A second message of the same entry, or one after another replay."""
    body = replays(credited)
    credited.bad.clear()
    credited.deliver(1, body=body)
    credited.settle()
    calls = len(credited.calls)
    credited.deliver(1, body=body)
    assert (len(credited.calls), credited.sent) == (calls, [])


def test_of_two_results_that_extend_one_the_first_counts(credited):
    """They may differ: another service answered. The second changes nothing."""
    body = replays(credited)
    credited.bad.clear()
    credited.deliver(1, body=body)
    credited.workload.map = lambda sale, _number: (sale.shop or "none", sale.amount * 2)
    credited.deliver(1, body=body)
    first, second = credited.sent
    assert first.hash != second.hash
    credited.settle()
    assert credited.row.hash == first.hash


def test_a_replay_waits_until_its_chunk_is_credited(world):
    """It is delivered again."""
    world.bad = {SEVENTH}
    fail(world, *range(1, LAST))
    world.deliver(LAST)
    with pytest.raises(NoSlotError, match="it is not credited yet"):
        world.deliver(1, body=replays(world))


def test_a_message_of_an_entry_that_is_open_again_is_dropped(credited):
    """Its process died between the entry and the acknowledgement."""
    body = replays(credited)
    credited.deliver(1, body=body)
    assert (credited.aside.state, credited.aside.returns) == (EntryState.OPEN, 1)
    calls = len(credited.calls)
    credited.deliver(2, body=body)
    assert (len(credited.calls), credited.aside.returns) == (calls, 1)


def ending(seen):
    """Return how a process of its own ends that dies of the seventh."""

    def run_alone(workload, parts, first, limits, *, turns, makes_lines, left):
        seen.append(left)
        ran = run_in_parts(workload, parts, first, limits, makes_lines=makes_lines, left=left)
        return replace(ran, left=tuple(one._replace(error=KillerError("SIGSEGV")) for one in ran.left))

    return run_alone


def test_what_kills_its_process_is_set_aside_at_once_and_replayed_in_one_of_its_own(world):
    """Its worker has the others, and has no part in the replay either."""
    world.bad, seen, seventh = {SEVENTH}, [], world.message.first_id + 7
    world.run_alone = ending(seen)
    note = f"{world.job}|{chunk_key(0, 1)}"
    with world.process() as process:
        process.attempts.note_begun(note, 2)
    world.deliver(3)
    assert (world.aside.reason, world.entry, seen) == ("killed_its_worker", None, [None])
    world.settle()
    assert (world.row.aside, world.row.totals.accepted.items) == (1, 9)
    body = replays(world)
    world.deliver(1, body=body)
    assert (world.aside.state, world.aside.returns, seen[1:]) == (EntryState.OPEN, 1, [{seventh}])
    body = replays(world)
    world.bad.clear()
    world.deliver(1, body=body)
    world.settle()
    assert (world.row.aside, world.row.totals.accepted.items, seen[2:]) == (0, 10, [{seventh}])


def test_beside_one_that_waits_a_killer_stays_in_its_own_process(world):
    """So the kept outcome says so, and no delivery takes its worker along."""
    world.bad, seen = {Decimal("3.10")}, []
    world.workload.fault = lambda sale: raise_for(sale, world.bad)
    kill = ending(seen)

    def run_alone(*chunk, **more):
        ran = kill(*chunk, **more)
        waits = ran.left[0]._replace(error=TimeoutError()) if not seen[1:] else ran.left[0]
        return replace(ran, left=(waits, *ran.left[1:]))

    world.run_alone, world.bad = run_alone, {Decimal("3.10"), SEVENTH}
    with world.process() as process:
        process.attempts.note_begun(f"{world.job}|{chunk_key(0, 1)}", 2)
        with pytest.raises(PutOffError) as put_off:
            world.deliver(3)
        process.attempts.forget(f"{world.job}|{chunk_key(0, 1)}")
    world.clock.advance(put_off.value.seconds)
    world.deliver(4)
    assert seen == [None, {world.message.first_id + 3, world.message.first_id + 7}]
    assert (world.aside.reason, world.aside.items) == ("killed_its_worker", 2)


def raise_for(sale, bad):
    """Fail for these amounts."""
    if sale.amount in bad:
        raise ZeroDivisionError


def test_a_chunk_whose_pieces_cannot_be_merged_is_parked_as_a_whole(world):
    """Its entry has the failure of `merge`."""
    world.bad = {SEVENTH}
    world.workload.merge = lambda _left, _right: 1 / 0
    fail(world, *range(1, LAST))
    world.deliver(LAST)
    assert (world.aside, world.entry.reason) == (None, "failed:ZeroDivisionError")
    assert [sent.reason for sent in world.sent] == ["failed:ZeroDivisionError"]


def test_a_large_result_is_stored_behind_its_entry(world):
    """And its message names the blob."""
    world.bad = {SEVENTH}
    world.workload.combine = lambda mapped: {f"{shop}{n}": Decimal(n) / 7 for shop, _ in mapped for n in range(30_000)}
    world.deliver(LAST)
    (told,) = world.sent
    assert (told.blob, told.parked.items) == (f"{world.job}/1/0", 1)
    with world.process() as process:
        stored = ResultStore(process.connections.blobs.get_container_client("results")).find(world.message)
    assert stored.result.parked.items == 1


def test_a_replay_that_is_tried_again_is_said_of_its_chunk(credited):
    """The chunk itself is done. When all have passed, a note that was left is no news."""

    def refuse(mapped):
        if mapped:
            raise LookupError
        return {}

    body = replays(credited)
    credited.bad.clear()
    credited.workload.combine = refuse
    with pytest.raises(LookupError):
        credited.deliver(1, body=body)
    del credited.workload.combine
    with credited.connect(Plan()) as connections, Stores(connections) as stores:
        (retried,) = stores.job_reader(1).look(credited.job).retried
        assert (chunk_of_key(retried.key), retried.left, retried.deliveries) == (0, 1, 1)
        credited.deliver(1, body=body)
        credited.settle()
        assert stores.job_reader(1).look(credited.job).retried == []


def test_the_lines_of_an_entry_are_those_that_are_parked():
    """The others of their chunk are other people's data. Before the credit nothing says which they are."""
    made = published(6, 3, bad=4)
    with made.app() as app:
        (entry,) = app.operator().select(Selection())
        found = build_entry_reader(app.stores).read_lines(entry, 9, by="ann", why="to see")
        assert [json.loads(json.loads(line)["line"])["shop"] for line in found.lines] == ["odd"]
        made.observer().tables.get_table_client("jobs").delete_entity("nightly", "chunk:000000001")
        found = build_entry_reader(app.stores).read_lines(entry, 9, by="ann", why="to see")
        assert (found.lines, found.problem[:34]) == ((), "its chunk is not credited yet: rea")
    made.close()
