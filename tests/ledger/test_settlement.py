"""What results do to a job: credited once, in any order, and lies refused."""

from dataclasses import replace
from decimal import Decimal
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace as replace_fields

from shared.ledger import MERGED_MOST, ChunkState, JobState, Portion, Totals, pause_too_large
from shared.ledger.job_decisions import resume
from shared.ledger.settlement import settle
from shared.messages import PortionMessage
from shared.parked.poison_policy import PoisonPolicy
from tests.ledger.builders import AMOUNT, ITEMS, at, job, parked, result

NEVER_PAUSE = PoisonPolicy(pause_share=1.0)


def settled(before, results, stored=(), limit=NEVER_PAUSE):
    """Settle on rows that the ledger knows, and return the settlement with the rows that there are afterwards."""
    known = {row.chunk: row for row in stored}
    made = settle(before, known, results, at(1), limit)
    return made, known | {row.chunk: replace(row, etag="stored") for row in made.rows}


def sum_of(rows):
    """Return the totals of rows, added up anew."""
    return sum((row.totals for row in rows.values()), Totals())


def test_a_result_is_credited_with_its_items_and_sums():
    """One done chunk moves the job's count, totals and reported costs."""
    made, rows = settled(job(), [result(1)])
    assert made.job.done == 1
    assert made.job.totals.accepted == Portion(ITEMS, {"amount": AMOUNT})
    assert (made.job.milliseconds, dict(made.job.requests)) == (7, {"useful": 3})
    assert (made.job.state, made.finish_due) == (JobState.RUNNING, False)
    assert [row.chunk for row in made.inserts] == [1]
    assert sum_of(rows) == made.job.totals


def test_the_same_result_twice_in_one_group_counts_once():
    """A duplicate beside its original is dropped."""
    made, _ = settled(job(), [result(1), result(1)])
    assert made.job.done == 1
    assert made.duplicates == (result(1),)


def test_a_result_of_a_chunk_that_has_ended_changes_nothing():
    """A duplicate that comes later is dropped, and there is nothing to write."""
    first, rows = settled(job(), [result(1)])
    again, _ = settled(first.job, [result(1)], rows.values())
    assert again.job == first.job
    assert (again.rows, again.duplicates) == ((), (result(1),))


def test_the_last_chunk_makes_the_finish_due_once():
    """Whoever settles the last chunk sends the finish message; a duplicate of it does not."""
    made, rows = settled(job(), [result(n) for n in range(3)])
    assert (made.job.state, made.finish_due) == (JobState.FINISHING, True)
    again, _ = settled(made.job, [result(2)], rows.values())
    assert not again.finish_due


def test_the_last_result_may_overtake_the_dispatcher():
    """A job whose chunks have all ended finishes, whatever its dispatcher had time to write."""
    made, _ = settled(job(state=JobState.DISPATCHING, dispatch_cursor=0), [result(n) for n in range(3)])
    assert made.finish_due


def test_of_two_runs_with_different_results_the_first_credited_stays():
    """The other one is dropped like any duplicate, and named: it is no forgery."""
    first, rows = settled(job(), [result(1)])
    other = result(1, hash="0" * 64)
    made, _ = settled(first.job, [other], rows.values())
    assert (made.job, made.rows, made.refused) == (first.job, (), ())
    assert (made.duplicates, made.differing) == ((other,), (other,))
    again, _ = settled(first.job, [result(1)], rows.values())
    assert (len(again.duplicates), again.differing) == (1, ())


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_runs_in_one_group_the_row_and_the_result_are_of_the_same_one(turned):
    """Whichever comes first counts: its totals, its hash, and its very message."""
    runs = [result(1), result(1, hash="0" * 64, accepted=PortionMessage(items=1, sums={"amount": "1"}))]
    runs = runs[::-1] if turned else runs
    made, rows = settled(job(), [parked(1), *runs])
    assert made.credited == (runs[0],)
    assert (rows[1].hash, rows[1].totals.accepted.items) == (runs[0].hash, runs[0].accepted.items)
    assert made.differing == (runs[1],)


def test_the_credited_results_are_those_of_the_rows_in_their_order():
    """Inserted rows and those that replace parked ones, in any order of arrival."""
    before, rows = settled(job(), [parked(2)])
    results = [result(2), result(0), result(1)]
    made, _ = settled(before.job, results, rows.values())
    assert [row.hash for row in made.rows] == [one.hash for one in made.credited]
    assert sorted(row.chunk for row in made.rows) == [0, 1, 2]


@pytest.mark.parametrize(
    "changes",
    [{"content": "x"}, {"content": "x", "blob": None, "hash": None}, {"reason": "why", "content": "x", "hash": None}],
)
def test_a_result_says_one_thing_about_its_content(changes):
    """Both a blob and a content, a content without its hash, or a content of a parked chunk are refused."""
    made, _ = settled(job(), [result(1, **changes)])
    assert (made.rows, len(made.refused)) == ((), 1)


def test_the_result_of_an_older_revision_is_no_conflict():
    """A zombie of an older run may have another hash; its chunk is done and it is dropped."""
    before = job(revision=2)
    first, rows = settled(before, [result(1, revision=2)])
    made, _ = settled(first.job, [result(1, revision=1)], rows.values())
    assert (made.refused, len(made.duplicates)) == ((), 1)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (result(3), "chunks 0 to 2"),
        (result(0, revision=2), "at revision 1"),
        (result(0, hash=None), "needs the SHA-256"),
        (result(0, hash="A" * 64), "needs the SHA-256"),
        (result(0, blob=None), "is not nightly/1/0"),
        (result(0, blob="nightly/1/1"), "is not nightly/1/0"),
        (result(0, blob="nightly/1/../../other/0"), "is not nightly/1/0"),
        (result(0, blob="other/1/0"), "is not nightly/1/0"),
        (result(0, accepted=PortionMessage(items=10**10)), "at most 1000000000 items"),
        (result(0, accepted=PortionMessage(items=1, sums={"amount": "NaN"})), "not a decimal number"),
        (result(0, accepted=PortionMessage(items=1, sums={"amount": "1E+999999"})), "not a decimal number"),
        (result(0, accepted=PortionMessage(items=1, sums={"a" * 101: "1"})), "at most 64 sums"),
        (result(0, accepted=PortionMessage(items=1, sums={f"s{n}": "1" for n in range(65)})), "at most 64 sums"),
        (parked(0, hash="0" * 64), "both why it is parked and where its result is"),
    ],
)
def test_a_forged_result_is_refused_and_its_neighbours_count(lie, words):
    """A result that cannot be the job's own says why, and takes nothing along."""
    made, _ = settled(job(), [result(1), lie, result(2)])
    assert [refused.result for refused in made.refused] == [lie]
    assert words in made.refused[0].reason
    assert made.job.done == 2


def test_a_result_of_a_job_without_a_plan_is_refused():
    """Before the plan no chunk can exist, so nothing can have been processed."""
    made, _ = settled(job(plan=None, state=JobState.PLANNING), [result(0)])
    assert "no plan yet" in made.refused[0].reason


def held(**changes):
    """Return a job behind a closed gate, of which nothing was put on a queue."""
    nothing = {"started_at": None, "progressed_at": None, "dispatch_cursor": 0}
    return job(**{"gate": "payday", "held_epoch": 4, "state": JobState.HELD, **nothing, **changes})


@pytest.mark.parametrize("state", [JobState.PLANNING, JobState.HELD])
def test_a_result_of_a_job_that_may_not_have_started_is_refused(state):
    """Nothing of it was put on a queue. Credited, such results would leave it paused or finished before its gate opens."""
    waiting = held(state=state)
    made, rows = settled(
        waiting, [result(0), parked(1), result(2)], limit=PoisonPolicy(pause_share=0.0, pause_chunks=0)
    )
    assert (made.job, rows, len(made.refused)) == (waiting, {}, 3)
    assert all("has not passed gate 'payday'" in one.reason for one in made.refused)


@pytest.mark.parametrize("state", [JobState.PLANNING, JobState.HELD])
def test_a_result_that_overtakes_the_first_note_of_the_cursor_counts(state):
    """Chunks are put before the row says so. The note that the job may start is there before them, and decides."""
    made, rows = settled(held(state=state, passed_epoch=5), [result(0)])
    assert (made.job.done, list(rows), made.refused) == (1, [0], ())
    ungated, _ = settled(held(state=state, gate=None, held_epoch=None), [result(0)])
    assert ungated.job.done == 1


def test_a_replay_takes_the_place_of_the_parked_chunk_once():
    """Parked becomes done, the totals move from one to the other, and repeating it changes nothing."""
    first, rows = settled(job(), [parked(1), result(0)])
    assert (first.job.parked_chunks, first.job.totals.parked.items) == (1, ITEMS)
    stored = rows[1]
    second, rows = settled(first.job, [result(1)], rows.values())
    assert (second.job.parked_chunks, second.job.done) == (0, 2)
    assert second.job.totals.parked == Portion()
    assert second.job.totals.accepted.items == 2 * ITEMS
    assert [row.etag for row in second.replaces] == [stored.etag]
    assert second.job.revision == 1
    third, _ = settled(second.job, [result(1), parked(1)], rows.values())
    assert third.job == second.job


def test_parked_chunks_without_sums_are_counted_apart():
    """What cannot be read has items but no sums, and its replay takes the mark away again."""
    first, rows = settled(job(), [parked(1, sums=False)])
    assert first.job.totals.parked == Portion(ITEMS, {}, unknown=1)
    second, _ = settled(first.job, [result(1)], rows.values())
    assert not second.job.totals.has_unknown_sums


@pytest.mark.parametrize("state", [JobState.FINISHING, JobState.COMPLETED_WITH_PARKED, JobState.UNBALANCED])
def test_a_replay_after_the_last_chunk_makes_a_new_revision(state):
    """Whatever an older finisher still does is fenced off by the new number."""
    first, rows = settled(job(), [result(0), result(1), parked(2)])
    ended = replace(first.job, state=state, finished_at=at(2), problem="old")
    made, _ = settled(ended, [result(2)], rows.values())
    assert (made.job.state, made.job.revision, made.finish_due) == (JobState.FINISHING, 2, True)
    assert (made.job.finished_at, made.job.problem) == (None, None)


def test_a_job_pauses_when_too_much_of_it_parks():
    """A broken workload does not park a whole job: it stops, and what is outstanding can still land."""
    limit = PoisonPolicy(pause_share=0.2, pause_chunks=2)
    made, rows = settled(job(chunks=10), [parked(n) for n in range(2)], limit=limit)
    assert made.job.state is JobState.RUNNING
    made, rows = settled(made.job, [parked(2)], rows.values(), limit=limit)
    assert made.job.state is JobState.PAUSED
    made, _ = settled(made.job, [result(n) for n in range(3, 9)], rows.values(), limit=limit)
    assert (made.job.state, made.job.done, made.finish_due) == (JobState.PAUSED, 6, False)


def test_a_paused_job_stays_so_until_a_person_resumes_it():
    """Its last chunk, parked like all others, does not end it, and neither does a replay after that."""
    paused = job(chunks=3, state=JobState.PAUSED, parked_chunks=2, dispatch_cursor=3)
    ended, rows = settled(paused, [parked(2)])
    assert (ended.job.state, ended.job.has_ended, ended.finish_due) == (JobState.PAUSED, True, False)
    made, _ = settled(ended.job, [result(2)], rows.values())
    assert (made.job.state, made.job.done, made.job.revision, made.finish_due) == (JobState.PAUSED, 1, 1, False)
    assert (resume(made.job, at(2)).state, resume(made.job, at(2)).revision) == (JobState.FINISHING, 2)


def test_a_resumed_job_does_not_pause_for_what_was_seen():
    """Only chunks that park after a person resumed the job count again."""
    limit = PoisonPolicy(pause_share=0.1, pause_chunks=1)
    before = job(chunks=10, parked_chunks=4, forgiven=4)
    assert settled(before, [parked(5)], limit=limit)[0].job.state is JobState.RUNNING
    assert settled(before, [parked(5), parked(6)], limit=limit)[0].job.state is JobState.PAUSED


chunk_results = st.lists(
    st.builds(
        lambda chunk, is_parked, has_sums: parked(chunk, sums=has_sums(chunk)) if is_parked else result(chunk),
        st.integers(0, 5),
        st.booleans(),
        st.just(lambda chunk: chunk % 2 == 0),
    ),
    max_size=24,
)


@given(results=chunk_results, data=st.data())
def test_any_order_any_duplicates_and_any_grouping_give_the_totals_of_the_model(results, data):
    """The model is a dictionary of chunks in which done outranks parked; the ledger always agrees with it."""
    expected = {}
    for found in results:
        if expected.get(found.chunk) is None or found.reason is None:
            expected[found.chunk] = found
    delivered = data.draw(
        st.permutations(results + data.draw(st.lists(st.sampled_from(results)) if results else st.just([])))
    )
    now, rows = job(chunks=6), {}
    while delivered:
        size = data.draw(st.integers(1, len(delivered)))
        made, rows = settled(now, delivered[:size], rows.values())
        now, delivered = made.job, delivered[size:]
        assert sum_of(rows) == now.totals
        assert now.ended_chunks == len(rows)
    done = [chunk for chunk, found in expected.items() if found.reason is None]
    assert {chunk for chunk, row in rows.items() if row.state is ChunkState.DONE} == set(done)
    assert set(rows) == set(expected)
    assert now.totals.accepted.items == ITEMS * len(done)
    assert now.totals.accepted.sums.get("amount", Decimal(0)) == AMOUNT * len(done)
    assert now.totals.parked.items == ITEMS * (len(expected) - len(done))


@given(st.lists(st.decimals(-(10**20), 10**20, places=6), max_size=40))
def test_sums_are_exact_whatever_their_size(values):
    """No amount is ever rounded away, and taking everything back leaves nothing."""
    totals = Totals()
    for value in values:
        totals += Totals(accepted=Portion(1, {"amount": value}))
    exact = sum(int(value * 10**6) for value in values)
    assert int(totals.accepted.sums.get("amount", Decimal(0)).scaleb(6)) == exact
    for value in values:
        totals -= Totals(accepted=Portion(1, {"amount": value}))
    assert totals == Totals()


TOO_LARGE = {"partial": 640, "expected": 58 * 1024 * 1024}


def sounded(before, *results):
    """Settle, and pause the job if its first chunk says so."""
    return pause_too_large(settled(before, results)[0], MERGED_MOST)


def test_a_job_that_cannot_fit_is_paused_after_its_first_chunk():
    """Long before its last one, with the way out for a person to read."""
    found = sounded(job(), result(1), result(0, **TOO_LARGE)).job
    assert (found.state, found.sounded, found.done) == (JobState.PAUSED, TOO_LARGE["expected"], 2)
    assert found.problem == (
        "after chunk 0: the merged partial of workload 'billing' will have about 58 MiB, the limit is 16 and it has no split. "
        "Give it one (split = by_key), deploy and submit anew; or, if later chunks repeat its accounts, "
        "`sluice jobs resume nightly`"
    )


def test_it_is_paused_once():
    """Its operator knows that later chunks repeat its accounts."""
    paused = sounded(job(), result(0, **TOO_LARGE)).job
    resumed = resume(paused, at(2))
    assert (resumed.state, resumed.problem) == (JobState.RUNNING, None)
    # Replayed, or of another revision.
    assert sounded(replace(resumed, done=0), result(0, **TOO_LARGE)).job.state is JobState.RUNNING


@pytest.mark.parametrize(
    ("before", "results"),
    [
        (job(1), [result(0, **TOO_LARGE)]),
        (job(), [result(1, **TOO_LARGE)]),
        (job(), [result(0)]),
        (job(state=JobState.PAUSED), [result(0, **TOO_LARGE)]),
    ],
    ids=["has ended", "not the first chunk", "fits", "is paused"],
)
def test_nothing_else_is_paused_by_it(before, results):
    """The end has its own bound, and a paused job keeps its reason."""
    found = sounded(before, *results).job
    assert (found.sounded, found.problem) == (None, None)


def checked(chunk, rejected, accepted):
    """Return the result of a chunk with so many transactions of each kind."""
    counts = {"accepted": PortionMessage(items=accepted), "rejected": PortionMessage(items=rejected)}
    return result(chunk, **counts)


def test_a_wrong_file_pauses_when_half_of_ten_thousand_are_rejected():
    """Not at its end: its publisher reads the first lines alone. Not before either, and only once."""
    early, rows = settled(job(4), [checked(0, 9_999, 0)])
    assert (early.job.state, early.job.problem) == (JobState.RUNNING, None)
    found, rows = settled(early.job, [checked(1, 0, 1)], rows.values())
    assert (found.job.state, found.job.by, found.job.too_rejected) == (JobState.PAUSED, "sluice", 9_999)
    assert found.job.problem == (
        "9,999 of the 10,000 transactions that were checked are rejected, most_rejected is 50%. Read why: "
        "`sluice jobs output nightly --rejected`. If they are right, `sluice jobs resume nightly` goes on without this bound"
    )
    again, _ = settled(resume(found.job, at(2)), [checked(2, 9_999, 0)], rows.values())
    assert (again.job.state, again.job.problem) == (JobState.RUNNING, None)


@pytest.mark.parametrize(
    ("bound", "results", "is_paused"),
    [
        (None, [checked(0, 5_000, 5_000)], False),
        (None, [checked(0, 5_001, 5_000)], True),
        (None, [checked(n, 10, 0) for n in range(3)], False),
        ("100%", [checked(0, 20_000, 0)], False),
        ("3", [checked(0, 3, 0)], False),
        ("3", [checked(0, 4, 10_000)], True),
        ("0", [checked(0, 1, 10_000)], True),
        ("2.5%", [checked(0, 250, 9_750)], False),
        ("2.5%", [checked(0, 251, 9_749)], True),
        ("2.5%", [checked(0, 9, 0)], False),
        ("2.5%", [checked(0, 1, 9), checked(1, 0, 10), checked(2, 0, 10)], True),
        ("2.5%", [checked(0, 1, 19), checked(1, 0, 10), checked(2, 0, 10)], False),
    ],
)
def test_a_bound_of_rejected_transactions(bound, results, is_paused):
    """A number counts at once; a share of ten thousand, or of all: then no outputs of a wrong file are made."""
    found = settled(job(3, most_rejected=bound), results)[0].job
    wanted = JobState.FINISHING if len(results) == 3 else JobState.RUNNING
    assert found.state is (JobState.PAUSED if is_paused else wanted)


def test_a_replay_is_not_paused_by_the_bound():
    """Its job has ended before, and its outputs are there."""
    before = job(1, most_rejected="0", state=JobState.COMPLETED_WITH_PARKED, parked_chunks=1, finished_at=at(0))
    _, rows = settled(job(1), [parked(0)])
    assert settled(before, [checked(0, 5, 5)], rows.values())[0].job.state is JobState.FINISHING


def test_a_row_has_the_bytes_of_its_partial():
    """By which its job is cut."""
    (row,) = settled(job(), [result(1, partial=640)])[0].rows
    assert row.partial == row.partial_bytes == 640


def aside(chunk=0, number=1, extends=None, content="a", items=ITEMS):
    """Return a result that sets so many transactions of its chunk aside."""
    made = result(chunk, content=content, blob=None, hash=sha256(content.encode()).hexdigest())
    return replace_fields(
        made,
        accepted=PortionMessage(items=items - number, sums={"amount": "1.00"}),
        parked=PortionMessage(items=number, sums={"amount": "2.00"}),
        extends=extends,
    )


def test_what_is_set_aside_is_counted_with_its_sums():
    """Its chunk is done, so all sums are known."""
    made, rows = settled(job(), [aside(number=2)])
    assert (made.job.done, made.job.parked_chunks, made.job.aside) == (1, 0, 2)
    assert (made.job.totals.parked.items, made.job.totals.has_unknown_sums) == (2, False)
    assert rows[0].aside == 2


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_result_takes_the_place_of_the_one_that_it_extends(has_ended):
    """It counts in its place. A job that had ended gets a new revision."""
    first, rows = settled(job(), [aside(number=2), *(result(n) for n in range(1, 3 if has_ended else 2))])
    before = replace(first.job, state=JobState.COMPLETED_WITH_PARKED) if has_ended else first.job
    made, rows = settled(before, [aside(number=1, extends=rows[0].hash, content="b")], rows.values())
    assert (made.job.done, made.job.aside, rows[0].aside) == (before.done, 1, 1)
    assert (rows[0].extends, made.replaces[0].etag) == (aside().hash, "stored")
    assert sum_of(rows) == made.job.totals
    assert made.job.revision == before.revision + has_ended
    late, _ = settled(made.job, [result(0)], rows.values())
    assert (late.rows, late.differing) == ((), ()), "a late run of the whole chunk is a duplicate"


@pytest.mark.parametrize(
    "change",
    [
        {"extends": "0" * 64},
        {"number": 2},
        {"number": 3},
        {"items": ITEMS + 1},
    ],
    ids=str,
)
def test_a_result_that_could_take_something_back_is_a_duplicate(change):
    """It extends another one, sets no fewer aside, or has other transactions."""
    first, rows = settled(job(), [aside(number=2)])
    made, _ = settled(
        first.job, [aside(**{"number": 1, "extends": rows[0].hash, "content": "b"} | change)], rows.values()
    )
    assert (made.rows, len(made.duplicates), made.differing) == ((), 1, ())


def test_of_two_results_that_extend_one_the_first_counts():
    """Also in one group."""
    first, rows = settled(job(), [aside(number=2)])
    both = [aside(number=1, extends=rows[0].hash, content=content) for content in "bc"]
    made, rows = settled(first.job, both, rows.values())
    assert ([row.hash for row in made.rows], len(made.duplicates)) == ([both[0].hash], 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "it extends a result that was not credited"),
        ({"extends": "x"}, "it extends a result, and does not say its SHA-256"),
        ({"content": None, "blob": "j/1/0"}, "its result blob is not"),
        ({"hash": None, "content": None, "reason": "why"}, "it says both why it is parked and where its result is"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_result_that_extends_nothing_known_is_refused(change, why):
    """Its rows were read first."""
    sent = replace_fields(aside(extends="0" * 64), **{"content": "x", "blob": None} | change)
    made, _ = settled(job(), [sent])
    assert made.refused[0].reason.startswith(why)


def test_a_parked_chunk_that_is_replayed_may_set_some_aside():
    """Then it is done, and they are counted one by one."""
    first, rows = settled(job(), [parked(0)])
    made, _ = settled(first.job, [aside()], rows.values())
    assert (made.job.done, made.job.parked_chunks, made.job.aside) == (1, 0, 1)


@pytest.mark.parametrize(("items", "share", "is_paused"), [(1, 0.0, True), (2, 0.0, False), (1, 0.9, False)])
def test_a_job_pauses_when_more_are_set_aside_than_both_limits(items, share, is_paused):
    """Resuming forgives those that are."""
    policy = PoisonPolicy(pause_items=items, pause_item_share=share)
    made, _ = settled(job(), [aside(number=2)], limit=policy)
    assert (made.job.state is JobState.PAUSED) == is_paused
    if is_paused:
        assert made.job.problem.startswith("2 of its ")
        resumed = resume(made.job, at(2))
        assert (resumed.aside_forgiven, resumed.problem) == (2, None)
        again, _ = settled(resumed, [aside(1, number=1, content="b")], limit=policy)
        assert again.job.state is JobState.RUNNING
