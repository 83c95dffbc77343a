"""Mistakes that somebody could make, put into the real code: the proofs must object to each, or they prove nothing."""

from dataclasses import replace

import pytest

from shared.ledger import settlement, table_ledger
from shared.ledger.ledger import Written, change
from shared.ledger.settlement import settle
from shared.outbox import Outbox
from shared.pipeline import finish, outputs, segments
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.outputs import TotalsTable
from shared.pipeline.settle import Settler
from tests.faults.plan import Plan
from tests.ledger.history import History
from tests.ledger.world import Summing, World


class SettleHistory(History):
    """The part of a history in which results are settled."""

    def run(self):
        """Settle three results, one of them twice, and come to rest."""
        try:
            self.world.accept()
            results = [self.world.result(n) for n in range(3)]
            self.settle(results[0], results[1])
            self.settle(results[1], results[2])
            self.come_to_rest()
        finally:
            self.world.close()


class FinishHistory(History):
    """The part of a history in which a job is finished."""

    def run(self):
        """Finish a job whose results were settled without a fault."""
        try:
            self.world.accept()
            faulty, self.world.service = self.world.service, self.world.direct
            self.settle(*(self.world.result(n) for n in range(3)))
            self.world.service = faulty
            self.come_to_rest()
            assert {event.revision for event in self.world.told} == {1}
        finally:
            self.world.close()


def is_found(history, mode, requests):
    """Whether some request, when it meets the fault, ends in a state that a check objects to."""
    for k in requests:
        try:
            history(Plan.of(k, mode), counts_deliveries=False).run()
        except AssertionError:
            return True
    return False


def rows_in_a_second_write(patch):
    """The job is written first, its rows in a second request."""
    whole = table_ledger.TableLedger.commit

    def halves(self, job, rows=(), messages=()):
        written = whole(self, job, (), messages)
        return written if written is None or not rows else whole(self, replace(written), rows)

    patch.setattr(table_ledger.TableLedger, "commit", halves)


def added_again_after_a_lost_reply(patch):
    """A write whose reply was lost is made again on what is read then, over rows that are there."""
    known = table_ledger._operations

    def over(job, rows, messages):
        own, *others = known(job, rows, messages)
        return [own, *(("upsert", entity) for _, entity, *_ in others)]

    def without_looking(self, group, job, *, look_first):
        return settle(job, {}, [one.result for one in group.arrived], self._clock.now())

    patch.setattr(table_ledger, "_operations", over)
    patch.setattr(table_ledger.TableLedger, "_prove_write", lambda self, mine, rows, error: None)
    patch.setattr(Settler, "_decide", without_looking)


def pointer_after_the_state(patch):
    """The pointer to the finish message is written when the message is sent."""
    point = FinishCall.point
    patch.setattr(FinishCall, "point", lambda self, job, revision: None)
    patch.setattr(FinishCall, "forget_pointer", lambda self, pointer: point(self, "nightly", 1))


def conflict_read_as_a_failure(patch):
    """A refused write of something that is there is taken for a failure."""
    patch.setattr(outputs, "_WRITTEN_BEFORE", frozenset())


def event_forgotten_before_it_is_sent(patch):
    """The event is removed from the outbox, then sent."""

    def forget_first(self, job, pointer=None, known=None):
        for event in self._store.unsent(job) if known is None else known:
            self._store.forget(job, [event])
            self._send(event)
        if pointer is not None:
            self._pending.remove(pointer)

    patch.setattr(Outbox, "flush", forget_first)


def without_messages(ledger, job, decide, **options):
    """Change a job as usual, but for the messages."""

    def job_alone(found):
        made = decide(found)
        return made.job if isinstance(made, Written) else made

    return change(ledger, job, job_alone, **options)


def event_sent_but_not_stored(patch):
    """The event is sent right after the state and stored nowhere."""
    end = finish.Finisher._end
    patch.setattr(finish, "change", without_messages)

    def end_and_tell(self, job, found, gathered):
        ending = end(self, job, found, gathered)
        if ending is finish.Ending.FINISHED:
            self._tools.outbox._send(finish.event_of(job))
        return ending

    patch.setattr(finish.Finisher, "_end", end_and_tell)


def merged_segment_sends_nothing(patch):
    """Whoever finds its segment merged takes it that the others were looked at."""
    merge = segments.Segments.merge

    def end_early(self, job, message):
        blobs = segments.SegmentBlobs(self.tools.results, job.job, job.revision)
        is_there = message.segment not in blobs.list_steps(blobs.find_plan()).missing
        return is_there or merge(self, job, message)

    patch.setattr(segments.Segments, "merge", end_early)


def plan_taken_for_messages(patch):
    """A finisher that finds a plan takes it that the messages were sent."""
    send = FinishCall.send_segments
    patch.setattr(
        FinishCall, "send_segments", lambda self, *sent, again: None if again else send(self, *sent, again=again)
    )


BUGS = [
    (merged_segment_sends_nothing, FinishHistory, "kill_after"),
    (plan_taken_for_messages, FinishHistory, "kill_after"),
    (rows_in_a_second_write, SettleHistory, "kill_after"),
    (added_again_after_a_lost_reply, SettleHistory, "reset_after"),
    (pointer_after_the_state, SettleHistory, "kill_after"),
    (conflict_read_as_a_failure, FinishHistory, "kill_after"),
    (event_forgotten_before_it_is_sent, FinishHistory, "kill_after"),
    (event_sent_but_not_stored, FinishHistory, "kill_after"),
]


@pytest.mark.parametrize(("bug", "history", "mode"), BUGS, ids=[bug.__name__ for bug, _, _ in BUGS])
def test_a_seeded_bug_is_found_at_some_request(monkeypatch, bug, history, mode):
    """One fault at one request brings the bug to light."""
    quiet = Plan()
    history(quiet, counts_deliveries=False).run()
    bug(monkeypatch)
    # Settling and the plan of a finish show their bugs early, the rest of finishing near its end.
    is_early = history is SettleHistory or bug is plan_taken_for_messages
    requests = range(1, quiet.count + 1) if is_early else reversed(range(1, quiet.count + 1))
    assert is_found(history, mode, requests)


def stale_finisher(world):
    """Let a finisher of revision 1 stand still in mid-work while revision 2 is finished."""
    stood_still = []

    class StandsStill(Summing):
        def finish(self, partial):
            if not stood_still:
                stood_still.append(world.workload)
                world.workload = Summing()
                world.settle(world.result(2))
                world.finish(world.job().revision)
            yield from super().finish(partial)

    world.workload = StandsStill()
    world.settle(world.result(0), world.result(1), world.lost(2))
    world.finish(1)
    world.check()
    assert world.totals(world.job().revision) == world.expected(range(3))


def replay_after_the_end(world):
    """Finish a job with a parked chunk, replay the chunk and finish again."""
    world.settle(world.result(0), world.result(1), world.lost(2))
    world.finish(1)
    world.settle(world.result(2))
    world.finish(world.job().revision)
    world.check()


def revision_kept(patch):
    """A replay after the last chunk finishes the same revision again."""
    moved = settlement._advance_state
    patch.setattr(
        settlement, "_advance_state", lambda before, *rest: replace(moved(before, *rest), revision=before.revision)
    )


def totals_without_a_fence(patch):
    """The totals are written whatever revision has written before."""
    move = TotalsTable._try_move_fence

    def never_refused(self, job, before, after, rows):
        return move(self, job, self._read(job), after, rows)

    patch.setattr(TotalsTable, "_try_move_fence", never_refused)


@pytest.mark.parametrize(
    ("bug", "scenario"), [(revision_kept, replay_after_the_end), (totals_without_a_fence, stale_finisher)]
)
def test_a_bug_of_revisions_is_found(azurite, monkeypatch, bug, scenario):
    """A replay, or a finisher that stands still at the wrong moment, brings the bug to light."""
    for patched in (False, True):
        world = World(azurite.connection_string)
        try:
            world.accept()
            if not patched:
                scenario(world)
                continue
            bug(monkeypatch)
            with pytest.raises(AssertionError):
                scenario(world)
        finally:
            world.close()


def test_a_ledger_without_etags_is_found(azurite, monkeypatch):
    """Two settlers that read the same version bring the bug to light."""
    commit = table_ledger.TableLedger.commit

    def races(world):
        results = [world.result(n) for n in range(2)]
        first = []

        def second_settler_first(self, job, rows=(), messages=()):
            if not first:
                first.append(job)
                world.settle(results[1])
            return commit(self, job, rows, messages)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table_ledger.TableLedger, "commit", second_settler_first)
            world.settle(results[0])
        assert world.check().done == 2

    for patched in (False, True):
        world = World(azurite.connection_string)
        try:
            world.accept()
            if not patched:
                races(world)
                continue
            monkeypatch.setattr(table_ledger, "_is_unchanged", lambda etag: {"mode": table_ledger.UpdateMode.REPLACE})
            with pytest.raises(AssertionError):
                races(world)
        finally:
            world.close()
