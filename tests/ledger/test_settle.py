"""Batches of results on their way into the ledger: nothing is lost, counted twice or kept waiting by something else."""

import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from shared.errors import ContentionError, LedgerCorruptError, SettleIncompleteError, StorageUnavailableError
from shared.ledger import ChunkState, JobState, PlanBlob, Totals
from shared.ledger.job_decisions import bury
from shared.messages import Finish, decode, encode
from shared.parked.parking import Parking, Stages
from shared.pending import FINISH_POINTER, Pointer
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.settle import Settled, Settler
from shared.topology import BATCH_SECONDS
from tests.ledger.builders import ITEMS, NOON, job, parked, result
from tests.ledger.memory_ledger import MemoryLedger
from tests.ledger.stage import ManualClock, MemoryGroups, MemoryParked, MemoryPending, Stage, delivered
from tests.waiting import LIMIT


@pytest.fixture
def stage(ledger):
    """A settler over an accepted job of three chunks."""
    ledger.insert(job())
    return Stage(ledger)


def check(ledger, name="nightly"):
    """Assert that a job's totals are the sum of its rows, and return the job."""
    found = ledger.read(name)
    rows = list(ledger.rows(name))
    assert sum((row.totals for row in rows), Totals()) == found.totals
    assert found.done == sum(row.state is ChunkState.DONE for row in rows)
    assert found.parked_chunks == sum(row.state is ChunkState.PARKED for row in rows)
    return found


class OutagesLedger:
    """A ledger of which some calls do not answer, before or after they took effect."""

    def __init__(self, ledger, faults):
        self._ledger, self._faults = ledger, list(faults)

    def __getattr__(self, name):
        call = getattr(self._ledger, name)

        def faulty(*arguments):
            fault = self._faults.pop(0) if self._faults and name in {"read", "commit", "rows_of"} else None
            if fault == "before":
                raise StorageUnavailableError("the request was lost on purpose")
            answer = call(*arguments)
            if fault == "after":
                raise StorageUnavailableError("the reply was lost on purpose")
            return answer

        return faulty


def test_results_of_several_jobs_are_settled_in_one_batch(ledger, stage):
    """A batch is grouped by job, and each job gets its own."""
    ledger.insert(job(job="weekly"))
    outcome = stage.settle(result(0), result(0, job="weekly"), result(1), result(2, job="weekly"))
    assert outcome == Settled(credited=4)
    assert check(ledger).done == check(ledger, "weekly").done == 2


def test_the_last_result_calls_for_the_finish_once(ledger, stage):
    """One finish message for the job's revision is on its queue, and no pointer is left behind."""
    stage.settle(result(0), result(1))
    assert stage.sent == []
    stage.settle(result(2))
    assert [(queue, decode(message)) for queue, message in stage.sent] == [
        ("work-00", Finish(job="nightly", revision=1))
    ]
    assert stage.pending.of(FINISH_POINTER) == []
    stage.settle(result(2))
    assert len(stage.sent) == 1
    assert check(ledger).state is JobState.FINISHING


def test_more_results_than_a_transaction_takes_are_settled(ledger):
    """A batch may be larger than what one write takes."""
    ledger.insert(job(chunks=250))
    stage = Stage(ledger)
    outcome = stage.settle(*(result(n) for n in range(250)), *(result(n) for n in range(50)))
    assert (outcome.credited, outcome.duplicates) == (250, 50)
    assert check(ledger).state is JobState.FINISHING
    assert len(stage.sent) == 1


def test_duplicates_in_later_batches_are_dropped(ledger, stage):
    """What was delivered before is dropped, whether the message says so or not."""
    stage.settle(result(0), result(1))
    assert stage.settle(result(0), result(1), result(2), deliveries=2).duplicates == 2
    assert check(ledger).done == 3
    assert stage.settle(result(0)).duplicates == 1


def test_one_bad_message_does_not_take_ninety_eight_good_ones_along(ledger):
    """What cannot be credited is parked with its bytes; the rest counts."""
    ledger.insert(job(chunks=99))
    stage = Stage(ledger)
    outcome = stage.settle(*(result(n) for n in range(49)), b"{not json", *(result(n) for n in range(49, 98)))
    assert (outcome.credited, outcome.parked) == (98, 1)
    ((entry, body),) = stage.parked.entries.values()
    assert (entry.reason, body, entry.queue) == ("result_unreadable", b"{not json", "results")
    assert check(ledger).done == 98


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "result_unreadable"),
        (b"[" * 100_000, "result_unreadable"),
        (b"\xff\xfe", "result_unreadable"),
        (encode(result(0)) + b" " * 256 * 1024, "result_unreadable"),
        (encode(Finish(job="nightly", revision=1)), "result_unreadable"),
        (encode(result(0, job="../other")), "result_unreadable"),
        (encode(result(0, job="a/b#c?d")), "result_unreadable"),
        (encode(result(0)).replace(b'"chunk":0', b'"chunk":-1'), "result_unreadable"),
        (encode(result(0, job="never")), "result_of_unknown_job"),
        (encode(result(99)), "result_refused"),
        (encode(result(0, revision=9)), "result_refused"),
        (encode(result(0, hash=None)), "result_refused"),
    ],
)
def test_a_forged_message_is_parked_with_its_reason(ledger, stage, body, reason):
    """Every lie has a name, and the job is as it was."""
    assert stage.settle(result(1), body).parked == 1
    assert stage.parked.reasons() == [reason]
    assert check(ledger).done == 1


def test_results_of_a_buried_job_are_dropped(ledger):
    """After its retention nobody needs a job's results, and nothing is parked for ever."""
    ledger.insert(job(chunks=0, state=JobState.COMPLETE))
    ledger.commit(bury(ledger.read("nightly")))
    stage = Stage(ledger)
    assert stage.settle(result(0)).duplicates == 1
    assert stage.parked.entries == {}


def test_a_replay_of_a_finished_job_calls_for_its_next_revision(ledger, stage):
    """The chunk counts at most once however often it is repeated, and each revision is finished once."""
    stage.settle(result(0), result(1), parked(2))
    finished = ledger.commit(replace(ledger.read("nightly"), state=JobState.COMPLETED_WITH_PARKED))
    stage.sent.clear()
    stage.settle(result(2))
    stage.settle(result(2), result(2))
    assert [decode(message) for _, message in stage.sent] == [Finish(job="nightly", revision=2)]
    found = check(ledger)
    assert (found.revision, found.done, found.parked_chunks) == (finished.revision + 1, 3, 0)
    assert stage.pending.of("job") == ["nightly"], "the tick looks after the job again"


@pytest.mark.parametrize("where", range(6))
@pytest.mark.parametrize("fault", ["before", "after"])
def test_an_outage_at_any_call_changes_nothing(ledger, where, fault):
    """A lost request and a lost reply both end in the same rows, and the finish is called for."""
    ledger.insert(job())
    stage = Stage(OutagesLedger(ledger, [None] * where + [fault]))
    stage.settle(result(0), parked(1))
    stage.settle(result(1), result(2))
    assert (check(ledger).done, len(stage.parked.entries)) == (3, 0)
    assert len(stage.sent) >= 1


def test_a_finish_message_that_could_not_be_put_is_put_by_the_next_attempt(stage):
    """The rows are written by then. Without this, the job would wait three minutes for its pointer to be due."""
    failing = ["once"]

    def put(queue, message):
        if failing:
            failing.pop()
            raise StorageUnavailableError("the request was lost on purpose")
        stage.sent.append(decode(message))

    call = FinishCall(put, stage.pending, stage.clock)
    settler = Settler(
        stage.ledger, call, stage.parking, stage.groups, stage.clock, send_later=stage.later.extend, halts=None
    )
    settler.settle([delivered(result(n)) for n in range(3)])
    assert (stage.sent, stage.pending.rows) == ([Finish(job="nightly", revision=1)], {})


def test_the_jobs_of_a_batch_are_settled_side_by_side_and_the_groups_of_one_are_not(ledger):
    """Three hundred small jobs end at once, and one that fails keeps no other from its end."""
    met, reading = threading.Barrier(3), []

    class MeetingLedger(OutagesLedger):
        def read(self, name):
            assert name not in reading, "two groups of one job would race each other"
            reading.append(name)
            if (name, len(list(ledger.rows(name)))) in {("one", 0), ("two", 0), ("lost", 0)}:
                met.wait(LIMIT)
            reading.remove(name)
            if name == "lost":
                raise ValueError("odd")
            return ledger.read(name)

    for name in ("one", "two"):
        ledger.insert(job(job=name, chunks=150))
    stage = Stage(MeetingLedger(ledger, []), parallel=3)
    results = [result(number, job=name) for number in range(150) for name in ("one", "two")]
    with pytest.raises(SettleIncompleteError, match="could not settle 1 of 3"):
        stage.settle(*results, result(0, job="lost"))
    assert [check(ledger, name).done for name in ("one", "two")] == [150, 150]


def test_an_outage_longer_than_the_time_there_is_delivers_the_batch_again(ledger, stage):
    """Nothing healthy is parked by an outage: the batch comes back, and the outage is waited for with pauses."""
    away = Stage(OutagesLedger(ledger, ["before"] * 10_000))
    with pytest.raises(SettleIncompleteError, match="redelivered"):
        away.settle(result(0))
    assert away.parked.entries == {}
    assert BATCH_SECONDS <= away.clock.seconds < BATCH_SECONDS + 1
    assert away.clock.pauses < 500
    stage.settle(result(0), deliveries=2)
    assert check(ledger).done == 1


def test_a_job_whose_rows_are_unreadable_does_not_keep_the_others(ledger):
    """Its results are parked with the reason, to be replayed when the rows are restored."""

    class CorruptLedger(OutagesLedger):
        def read(self, name):
            if name == "weekly":
                raise LedgerCorruptError("somebody wrote into it")
            return ledger.read(name)

    ledger.insert(job())
    stage = Stage(CorruptLedger(ledger, []))
    assert stage.settle(result(0, job="weekly"), result(0)) == Settled(credited=1, parked=1)
    assert stage.parked.reasons() == ["ledger_unreadable"]
    assert check(ledger).done == 1


def test_races_without_end_are_given_up(stage):
    """Somebody who always comes first is no outage: the number of tries is bounded."""

    class LosingLedger(OutagesLedger):
        def commit(self, *arguments):
            return None

    losing = Stage(LosingLedger(stage.ledger, []))
    with pytest.raises(SettleIncompleteError) as given_up:
        losing.settle(result(0))
    assert isinstance(given_up.value.__cause__, ContentionError)
    assert losing.clock.pauses < 60


def test_a_settler_that_ends_between_its_write_and_its_call_leaves_a_pointer(ledger):
    """The pointer is there before the state, and whoever follows it sends the message."""
    ledger.insert(job())
    stage = Stage(ledger)

    class EndedError(BaseException):
        """Stands for the end of the process."""

    def ends(queue, message):
        raise EndedError

    call = FinishCall(ends, stage.pending, stage.clock)
    dying = Settler(ledger, call, stage.parking, stage.groups, stage.clock, send_later=stage.later.extend, halts=None)
    with pytest.raises(EndedError):
        dying.settle([delivered(result(n)) for n in range(3)])
    assert stage.pending.of(FINISH_POINTER) == ["nightly:1"]
    (pointer,) = stage.pending.rows.values()
    call = FinishCall(lambda queue, message: stage.sent.append(decode(message)), stage.pending, stage.clock)
    call.repeat(pointer, ledger.read("nightly"))
    assert stage.sent == [Finish(job="nightly", revision=1)]
    assert stage.pending.rows == {}
    stage.settle(result(2), deliveries=2)
    assert len(stage.sent) == 2


def test_a_pointer_to_a_revision_that_is_over_sends_nothing(stage):
    """A dangling pointer is harmless: it is removed and that is all."""
    call = FinishCall(lambda queue, message: stage.sent.append(message), stage.pending, stage.clock)
    over = job(state=JobState.COMPLETE, done=3)
    for known in (over, job(state=JobState.FINISHING, revision=2, done=3), job(state=JobState.BURIED), None):
        call.repeat(call.point("nightly", 1), known)
    call.repeat(stage.pending.add(Pointer(FINISH_POINTER, NOON, "written by hand")), job())
    assert (stage.sent, stage.pending.rows) == ([], {})


@pytest.mark.parametrize(
    "known", [job(), job(state=JobState.COMPLETED_WITH_PARKED, done=2, parked_chunks=1, revision=0)]
)
def test_a_pointer_whose_state_may_still_come_is_put_off(stage, known):
    """A settler that stood still between its pointer and its write finds the pointer in place."""
    call = FinishCall(lambda queue, message: stage.sent.append(message), stage.pending, stage.clock)
    call.repeat(call.point("nightly", 1), known)
    assert (stage.sent, stage.pending.of(FINISH_POINTER)) == ([], ["nightly:1"])


def test_eight_settlers_on_one_job_stay_within_a_bounded_number_of_races(table_ledger):
    """Each settler loses some races, none starves, and every chunk counts once, duplicates included."""
    settlers, batches, size = 8, 4, 20
    chunks = settlers * batches * size
    table_ledger.insert(job(chunks=chunks))
    outcomes, sent = [], []

    def settle(first):
        call = FinishCall(lambda queue, message: sent.append(message), MemoryPending(), ManualClock())
        settler = Settler(
            table_ledger,
            call,
            Parking(MemoryParked(), ManualClock(), Stages()),
            MemoryGroups(),
            ManualClock(),
            send_later=[].extend,
            halts=None,
            pause=time.sleep,
        )
        for batch in range(batches):
            start = first + batch * settlers * size
            # The last result of each batch is delivered to the next settler as well.
            numbers = [*range(start, start + size), (start + size) % chunks]
            outcomes.append(settler.settle([delivered(result(n)) for n in numbers]))

    threads = [threading.Thread(target=settle, args=(n * size,)) for n in range(settlers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(outcomes, Settled())
    assert check(table_ledger).done == total.credited == chunks
    assert total.credited + total.duplicates == settlers * batches * (size + 1)
    assert len(sent) == 1
    assert max(outcome.races for outcome in outcomes) <= 25
    assert total.races <= settlers * len(outcomes)


def test_a_job_without_a_plan_refuses_results_and_takes_them_later(ledger):
    """A result that overtakes everything is forged, and what is parked of it does not count."""
    ledger.insert(job(plan=None, state=JobState.PLANNING))
    stage = Stage(ledger)
    assert stage.settle(result(0)).parked == 1
    ledger.commit(replace(ledger.read("nightly"), plan=PlanBlob("p", "e"), state=JobState.RUNNING))
    assert stage.settle(result(0)).credited == 1
    assert check(ledger).totals.items == ITEMS


@given(data=st.data())
def test_any_batches_any_duplicates_and_any_outages_end_in_the_same_totals(data):
    """Results come in any order, some twice, through a ledger that fails now and then: the end is always the same."""
    ledger = MemoryLedger()
    ledger.insert(job(chunks=5))
    faults = data.draw(st.lists(st.sampled_from([None, None, "before", "after"]), max_size=30))
    stage = Stage(OutagesLedger(ledger, faults))
    results = [result(0), result(1), parked(2), result(2), result(3), parked(4), result(4)]
    waiting = data.draw(st.permutations(results + data.draw(st.lists(st.sampled_from(results), max_size=8))))
    while waiting:
        size = data.draw(st.integers(1, len(waiting)))
        stage.settle(*waiting[:size], deliveries=data.draw(st.integers(1, 2)))
        waiting = waiting[size:]
        check(ledger)
    found = check(ledger)
    assert (found.done, found.parked_chunks, found.totals.accepted.items) == (5, 0, 5 * ITEMS)
    assert found.state is JobState.FINISHING
    assert Finish(job="nightly", revision=found.revision) in [decode(message) for _, message in stage.sent]
    assert stage.parked.entries == {}


class OddLedger:
    """A ledger that cannot write one chunk, for a reason that nobody thought of."""

    def __init__(self, ledger, odd):
        self._ledger, self._odd = ledger, odd

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    def commit(self, job, rows=(), *more):
        """Write, unless it is the odd one."""
        if any(row.chunk == self._odd for row in rows):
            raise TypeError("too large to be cast")
        return self._ledger.commit(job, rows, *more)


def test_a_result_that_fails_for_a_reason_of_its_own_keeps_no_other_from_being_credited(ledger):
    """It is found out alone, delivered again a few times with its batch, and parked at the fifth delivery."""
    ledger.insert(job())
    ledger.insert(job(job="weekly"))
    stage = Stage(OddLedger(ledger, 1))
    batch = result(0), result(1), result(2), result(0, job="weekly")
    with pytest.raises(SettleIncompleteError, match="1 of 2 groups"):
        stage.settle(*batch)
    assert (check(ledger).done, check(ledger, "weekly").done) == (2, 1)
    assert stage.parked.reasons() == []
    assert stage.settle(*batch, deliveries=5) == Settled(duplicates=3, parked=1)
    assert stage.parked.reasons() == ["result_failed"]


@pytest.mark.parametrize(
    "odd",
    [
        b'{"sluice":{"kind":"result","job":"nightly","chunk":2147483648,"revision":1}}',
        b'{"sluice":{"kind":"result","job":"nightly","chunk":0,"revision":1000000000000000000000000000000}}',
        b'{"sluice":{"kind":"result","job":"nightly","chunk":0,"revision":1,"milliseconds":9223372036854775808}}',
        b'{"sluice":{"kind":"result","job":"nightly","chunk":0,"revision":1,"requests":{"a":-1}}}',
        b'{"sluice":{"kind":"result","job":"n\xc3(","chunk":0,"revision":1}}',
        b"[" * 4000,
        b"",
    ],
)
def test_a_message_that_is_odd_in_any_way_is_parked_and_the_others_are_credited(ledger, stage, odd):
    """No column takes such a number, no reader such bytes: it is parked by what it is, at once."""
    assert stage.settle(odd, result(0)) == Settled(credited=1, parked=1)
    assert stage.parked.reasons() == ["result_unreadable"]
    assert check(ledger).done == 1
