"""A held job and results about it: what a stranger invents is parked, what overtakes the cursor's note counts."""

import hashlib

from shared.azure import put_on
from shared.ledger import JobState
from shared.messages import PortionMessage, Result, encode
from shared.pipeline.settle import Received
from shared.signals import Hint
from tests.pipeline.whole_app import app_in_memory

GATE, ITEMS = "payday", 40


def invented(job, chunk):
    """Return a result as a stranger with the right to send makes it."""
    name = hashlib.sha256(b"nothing of it ever ran").hexdigest()
    accepted = PortionMessage(items=1, sums={"amount": "1000000"})
    return Result(job=job, chunk=chunk, revision=1, blob=f"{job}/1/{chunk}", hash=name, accepted=accepted)


def held(whole):
    """Have a job behind its closed gate."""
    whole.submit("nightly", ITEMS, gate=GATE)
    whole.work_off()
    found = whole.read("nightly")
    assert (found.state, found.done) == (JobState.HELD, 0)
    return found


def open_gate(whole):
    """Open the gate and release what it holds, as its signal does."""
    whole.app.stores.gate_operator.open(GATE, by="ann")
    whole.app.release(Hint(GATE))


def test_invented_results_of_a_held_job_are_parked_and_the_job_starts_on_time():
    """They say why, they cost the job nothing, and its totals are those of its own transactions."""
    with app_in_memory() as whole:
        before = held(whole)
        forged = [Received(encode(invented("nightly", chunk)), f"forged-{chunk}") for chunk in range(before.chunks)]
        assert whole.app.settle(forged).parked == before.chunks
        assert whole.read("nightly") == before
        entries = list(whole.app.stores.parked_table.entries())
        assert {(one.job, one.stage, one.reason) for one in entries} == {("nightly", "settle", "result_refused")}
        assert all("has not passed gate 'payday'" in one.found for one in entries)
        open_gate(whole)
        whole.work_off()
        found = whole.read("nightly")
        assert (found.state, found.problem, found.totals.items) == (JobState.COMPLETE, None, 2 * ITEMS)


def test_a_result_that_is_settled_before_the_cursor_is_noted_counts(monkeypatch):
    """Each chunk ends between its put and the note about it: the row still says held, and the job is whole."""
    seen = []

    def put_and_work(queues, queue, message):
        """Put a message, and be a worker that is faster than the dispatcher."""
        at = put_on(queues, queue, message)
        if made and queue.startswith("work"):
            seen.append(made[0].read("nightly"))
            made[0].work_off()
        return at

    made = []
    monkeypatch.setattr("shared.app.stores.put_on", put_and_work)
    with app_in_memory() as whole:
        made.append(whole)
        held(whole)
        open_gate(whole)
        assert (seen[0].state, seen[0].dispatch_cursor) == (JobState.HELD, 0)
        found = whole.read("nightly")
        assert (found.state, found.problem, found.totals.items) == (JobState.COMPLETE, None, 2 * ITEMS)
        assert list(whole.app.stores.parked_table.entries()) == []
