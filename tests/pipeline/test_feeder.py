"""Jobs that do not fit wait for their turn, and one feeder puts their chunks: nothing is lost, and rooms take turns."""

import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.app import Stores
from shared.concurrency import Decision, parse
from shared.concurrency.fleet import FleetChange, RulesInForce, Worker
from shared.errors import StorageUnavailableError
from shared.ledger.records import JobState
from shared.messages import decode
from shared.operating import explain_pace
from shared.pipeline import start
from shared.pipeline.feeding.fair import HUNGRY, LEAST_WINDOW, LONGEST_REST, SHORTEST_REST
from shared.pipeline.feeding.feed import LEAST_PAUSE, Fed, _Feeding
from shared.pipeline.feeding.ready import ReadyTable
from shared.topology import rooms, submission_queue
from tests.faults.world import SETTINGS
from tests.pipeline.whole_app import app_in_memory


@pytest.fixture
def app():
    """An app with two rooms beside the common one."""
    with app_in_memory(rooms(["alpha", "beta"]), settings=replace(SETTINGS, rooms=("alpha", "beta"))) as made:
        yield made


def rows(app):
    """Return what is left in the index and in the fleet's partition of jobs that wait for their turn."""
    stores = Stores(app.others)
    pending = app.others.tables.get_table_client("pending").list_entities()
    ready = [row["RowKey"] for row in pending if "ready" in row["RowKey"]]
    return ready, stores.fleet.read().feed


def accept(app, room, job, items):
    """Submit a job, and accept it without working on it."""
    app.submit(job, items, room)
    app.deliver(submission_queue(room))


def accept_behind(app, room, job):
    """Accept a job of one chunk, by a process that has read that others wait."""
    assert app.app.stages.tasks.following.view_feed(0.0)
    accept(app, room, job, 1)


def test_a_job_that_does_not_fit_runs_to_its_end_by_the_feeder(app):
    """Its first chunks go at once, the others by turns, and nothing is left behind."""
    accept(app, "", "large", 100)
    job = app.read("large")
    assert (job.state, job.dispatch_cursor, job.chunks) == (JobState.DISPATCHING, 64, 100)
    assert [key for key in rows(app)[0] if key.endswith("large")]
    app.work_off()
    job = app.read("large")
    assert (job.state, job.totals.accepted.items, job.dispatch_cursor) == (JobState.COMPLETE, 200, 100)
    assert rows(app) == ([], None)
    # A job that comes after that is put at once again.
    app.clock.advance(minutes=1)
    app.run("small", 3)
    assert app.read("small").state is JobState.COMPLETE


def test_a_small_job_of_another_room_ends_before_a_flood(app):
    """However many chunks of the first room wait."""
    accept(app, "alpha", "flood", 600)
    accept(app, "beta", "tiny", 1)
    ended = []
    feeder = replace(app.feeder, pause=lambda _seconds: (app.go_on(0.0), ended.append(states(app))))
    assert feeder.follow() is Fed.EMPTY
    app.work_off()
    assert states(app) == (JobState.COMPLETE, JobState.COMPLETE)
    assert (JobState.DISPATCHING, JobState.COMPLETE) in ended


def test_a_job_that_came_is_put_before_the_chunks_of_a_flood(app, monkeypatch):
    """Those of the flood are ready. In the same round they would be on the queue before its row is read."""
    seen, put_of = [], _Feeding._put_of

    def watched(feeding, row, *chunks):
        seen.append(("begin", row.job))
        put_of(feeding, row, *chunks)
        seen.append(("end", row.job))

    def rest(_seconds):
        if not seen.count(("end", "beta~late")):
            seen.clear()
            accept(app, "beta", "late", 1)
            # The window has place for chunks of the flood too.
            app.go_on(0.0)
            app.go_on(0.0)
            app.clock.advance(seconds=1)
        else:
            app.feeder.stop.set()

    monkeypatch.setattr(_Feeding, "_put_of", watched)
    accept(app, "alpha", "flood", 400)
    assert replace(app.feeder, pause=rest, parallel=8).follow() is Fed.HANDED_OVER
    assert seen[:3] == [("begin", "beta~late"), ("end", "beta~late"), ("begin", "alpha~flood")]


def test_a_room_that_comes_while_the_feeder_rests_has_a_round_at_once(app, monkeypatch):
    """A look is one request, and a round reads each queue. Without a room that came, the rest goes on."""
    accept(app, "alpha", "flood", 400)
    rests, seen, count_free = [], [], _Feeding._count_free

    def counted(feeding):
        seen.append(feeding)
        return count_free(feeding)

    def rest(seconds):
        app.clock.advance(seconds=seconds)
        rests.append((seconds, len(seen)))
        if len(rests) == 2:
            accept_behind(app, "beta", "late")
        if len(rests) == 3:
            app.feeder.stop.set()

    monkeypatch.setattr(_Feeding, "_count_free", counted)
    assert replace(app.feeder, pause=rest).follow() is Fed.HANDED_OVER
    assert rests[:3] == [(SHORTEST_REST, 1), (SHORTEST_REST, 1), (SHORTEST_REST, 2)]
    assert app.read("late", "beta").dispatch_cursor == 1


def test_tasks_take_the_chunk_of_a_room_that_came_before_those_on_the_queues(app):
    """By the receipt of its put. It lies on the queue too, for the tasks of other processes."""
    accept(app, "alpha", "flood", 400)
    own, taken = app.app.stages.tasks.own, []

    def rest(seconds):
        app.clock.advance(seconds=seconds)
        taken.append(own.take())
        if len(taken) == 1:
            accept_behind(app, "beta", "late")
        if len(taken) == 3:
            app.feeder.stop.set()

    assert replace(app.feeder, pause=rest).follow() is Fed.HANDED_OVER
    # The flood has not had its turn yet, so it is as new, and it comes after the smaller one.
    assert [decode(held.delivery.body).job for held in taken if held] == ["beta~late", "alpha~flood"]


def test_the_feeder_rests_from_the_begin_of_one_round_to_that_of_the_next(app):
    """What the puts of a round take is no longer rest. But it rests."""
    accept(app, "alpha", "flood", 400)
    rests, takes = [], [0.5, 5.0, 0.0]

    def depth():
        app.clock.advance(seconds=takes[len(rests)])
        rests.append(0.0)
        if len(rests) == len(takes):
            app.feeder.stop.set()
        return 0

    def rest(seconds):
        rests[-1] += seconds
        app.clock.advance(seconds=seconds)

    slow = SimpleNamespace(depth=depth, peek=lambda: HUNGRY)
    assert replace(app.feeder, pause=rest, queues=[slow]).follow() is Fed.HANDED_OVER
    assert rests == [LONGEST_REST - takes[0], LEAST_PAUSE, 0.0]


def test_a_job_says_that_it_waits_for_its_turn(app):
    """Also one of which nothing was put: its plan was made long ago."""
    accept(app, "alpha", "flood", 120)
    accept(app, "alpha", "next", 20)
    reader, now = app.stores.job_reader(1), app.clock.now()
    first, second = (explain_pace(reader.look(f"alpha~{job}"), now) for job in ("flood", "next"))
    assert first[0] == "56 of its 120 chunks wait for their turn on the queues"
    assert second[0] == "20 of its 20 chunks wait for their turn on the queues, behind 1 older job of its room"
    app.work_off()
    assert explain_pace(reader.look("alpha~next"), now) == []


def lose_all(app, room, job, items):
    """Accept a job, have all of it put by a feeder and lost, and let the tick find that."""

    def lose(seconds=0.0):
        app.others.queues.get_queue_client("work-00").clear_messages()
        app.clock.advance(seconds=seconds)

    accept(app, room, job, items)
    lose()
    app.bus.complete(app.bus.waiting("permits"))
    assert replace(app.feeder, pause=lose).follow() is Fed.EMPTY
    lose(3600)
    app.bus.complete(app.bus.waiting("permits"))
    app.app.tick()


def test_a_small_job_of_another_room_ends_before_lost_chunks_that_are_put_again(app):
    """All chunks of the first room were lost, and take turns as if they were new."""
    lose_all(app, "alpha", "flood", 160)
    row = app.read("flood", "alpha")
    assert (row.state, row.dispatch_cursor, row.again_from) == (JobState.RUNNING, 160, 0)
    assert chunks_on_queue(app) == []
    reader = app.stores.job_reader(1)
    assert "chunks that were lost wait for their turn on the queues" in explain_pace(
        reader.look("alpha~flood"), app.clock.now()
    )
    accept(app, "beta", "tiny", 1)
    ended = []
    feeder = replace(app.feeder, pause=lambda _seconds: (app.go_on(0.0), ended.append(states(app))))
    assert feeder.follow() is Fed.EMPTY
    app.work_off()
    assert states(app) == (JobState.COMPLETE, JobState.COMPLETE)
    assert ended.index((JobState.RUNNING, JobState.COMPLETE)) < 3
    row = app.read("flood", "alpha")
    assert (row.totals.accepted.items, row.done, row.again_from) == (320, 160, None)
    assert rows(app) == ([], None)


def test_lost_chunks_of_a_limited_room_are_put_within_its_limit(app):
    """They are on no queue, so they do not count as put."""
    lose_all(app, "alpha", "flood", 120)
    put_shares(app, "{rooms: {alpha: {most: 12}}}")
    app.clock.advance(seconds=11)
    seen = []
    assert feed_slowly(app, seen) is Fed.EMPTY
    assert (len(seen[0]), max(map(len, seen))) == (12, 12)
    app.work_off()
    assert app.read("flood", "alpha").state is JobState.COMPLETE


def test_lost_chunks_go_before_the_rest_of_their_job(app, monkeypatch):
    """The job was not all put when the first part was lost."""
    monkeypatch.setattr(start, "MOST_AT_ONCE", 10)
    accept(app, "", "large", 100)
    app.others.queues.get_queue_client("work-00").clear_messages()
    app.bus.complete(app.bus.waiting("permits"))
    app.clock.advance(seconds=3600)
    app.app.tick()
    row = app.read("large")
    assert (row.state, row.dispatch_cursor, row.again_from) == (JobState.DISPATCHING, 64, 0)
    app.work_off()
    row = app.read("large")
    assert (row.state, row.done, row.dispatch_cursor, row.again_from) == (JobState.COMPLETE, 100, 100, None)
    assert rows(app) == ([], None)


def test_a_job_that_is_paused_while_its_lost_chunks_wait_goes_on_at_its_place(app):
    """A feeder hands over with the place noted; the next one finds the pause, and a resume brings the job back."""
    lose_all(app, "", "large", 140)
    app.bus.complete(app.bus.waiting("permits"))
    assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
    row = app.read("large")
    assert (row.again_from, len(chunks_on_queue(app))) == (LEAST_WINDOW, LEAST_WINDOW)
    app.stores.ledger.commit(replace(row, state=JobState.PAUSED, problem="why"))
    app.bus.complete(app.bus.waiting("permits"))
    assert app.feeder.follow() is Fed.EMPTY
    assert (app.read("large").again_from, rows(app)) == (LEAST_WINDOW, ([], None))
    app.stores.job_operator.resume("large", by="ann", why="mended")
    app.app.tick()
    app.work_off()
    row = app.read("large")
    assert (row.state, row.done, row.again_from) == (JobState.COMPLETE, 140, None)


def test_a_feeder_that_dies_puts_lost_chunks_twice_and_never_too_few(app):
    """The next one begins at the place that the row has."""
    lose_all(app, "", "large", 140)

    class DiedError(BaseException):
        """The process ended here."""

    def die(_seconds):
        raise DiedError

    app.bus.complete(app.bus.waiting("permits"))
    with pytest.raises(DiedError):
        replace(app.feeder, pause=die).follow()
    assert (app.read("large").again_from, len(chunks_on_queue(app))) == (0, LEAST_WINDOW)
    app.feeder.call()
    app.work_off()
    row = app.read("large")
    assert (row.state, row.totals.accepted.items, row.done) == (JobState.COMPLETE, 280, 140)
    assert rows(app) == ([], None)


def states(app):
    """Return the states of both jobs."""
    return app.read("flood", "alpha").state, app.read("tiny", "beta").state


def test_what_a_dead_feeder_put_and_did_not_note_is_put_again_and_counts_once(app):
    """It dies at its first rest; the next one finds its row, and goes on from the cursor."""
    accept(app, "", "large", 100)

    class DiedError(BaseException):
        """The process ended here."""

    def die(_seconds):
        raise DiedError

    with pytest.raises(DiedError):
        replace(app.feeder, pause=die).follow()
    assert app.read("large").dispatch_cursor == 64
    assert rows(app)[1] is not None
    app.work_off()
    job = app.read("large")
    assert (job.state, job.totals.accepted.items, job.done) == (JobState.COMPLETE, 200, 100)
    assert rows(app) == ([], None)


def unanswered(feeder, puts, sent):
    """Return a feeder of which so many first puts take effect, and have no answer. `sent`: chunk and mark of each."""
    send = feeder.dispatcher.send

    def send_unheard(queue, message):
        inserted, said = send(queue, message), json.loads(message)["sluice"]
        sent.append((said["chunk"], said.get("again", False)))
        if len(sent) <= puts:
            raise StorageUnavailableError("no answer")
        return inserted

    return replace(feeder, parallel=1, dispatcher=replace(feeder.dispatcher, send=send_unheard, most_puts=lambda: 1))


@pytest.mark.parametrize("hands_over", [False, True])
def test_what_was_put_without_an_answer_is_put_again_with_the_mark(app, hands_over):
    """By the same feeder, and by the next one: its worker looks for the first result."""
    accept(app, "", "large", 100)
    while app.deliver("work-00"):
        pass
    app.bus.complete(app.bus.waiting("permits"))
    sent, left = [], range(64, 100)
    feeder = unanswered(app.feeder, len(left), sent)
    if hands_over:
        assert replace(feeder, patience=0.0).follow() is Fed.HANDED_OVER
        assert rows(app)[1].is_noted is False
        assert len(app.deliver("work-00")) < len(left)
    assert app.read("large").dispatch_cursor == 64
    assert feeder.follow() is Fed.EMPTY
    assert sent == [*((chunk, False) for chunk in left), *((chunk, True) for chunk in left)]
    app.work_off()
    job = app.read("large")
    assert (job.state, job.totals.accepted.items, job.done) == (JobState.COMPLETE, 200, 100)


def test_a_feeder_hands_over_that_one_before_it_died(app):
    """It did not come so far as that one may have put."""
    accept(app, "", "large", 300)

    class DiedError(BaseException):
        """The process ended here."""

    def die(_seconds):
        raise DiedError

    with pytest.raises(DiedError):
        replace(app.feeder, pause=die).follow()
    seen = []
    for _ in range(5):
        app.bus.complete(app.bus.waiting("permits"))
        while app.deliver("work-00"):
            pass
        assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
        seen.append((app.read("large").dispatch_cursor, rows(app)[1].is_noted))
    assert seen[0][1] is False
    assert seen[-1][1] is True
    app.work_off()
    assert app.read("large").state is JobState.COMPLETE


def put_shares(app, shares):
    """Put rules in force, as a tick does that has read them."""
    fleet, text = app.stores.fleet, f"version: 1\nrules: [{{name: a, tasks: 4}}]\nshares: {shares}"
    decision = Decision(4, app.clock.now(), {"rule": 4}, "rule", "a")
    change = FleetChange(decision=decision, in_force=RulesInForce(parse(text), text, f'"{shares}"'))
    assert fleet.commit(fleet.read(), change)


def chunks_on_queue(app):
    """Return the jobs of the first chunks on the queue, in their order."""
    found = app.others.queues.get_queue_client("work-00").peek_messages(32)
    said = [json.loads(one.content)["sluice"] for one in found]
    return [one["job"] for one in said if one["kind"] == "chunk"]


def feed_slowly(app, seen):
    """Run a feeder. The others work in every second of its rests only."""

    def rest(_seconds):
        seen.append(chunks_on_queue(app))
        app.clock.advance(seconds=0.25)
        if not len(seen) % 2:
            app.go_on(0.0)

    app.bus.complete(app.bus.waiting("permits"))
    return replace(app.feeder, pause=rest).follow()


def test_a_limited_room_never_has_more_chunks_on_the_queues(app):
    """Its second job waits until chunks of the first have ended. Its rows stay as long."""
    put_shares(app, "{rooms: {alpha: {most: 12}}}")
    accept(app, "alpha", "one", 30)
    accept(app, "alpha", "two", 10)
    assert chunks_on_queue(app) == []
    seen = []
    assert feed_slowly(app, seen) is Fed.EMPTY
    assert [len(found) for found in seen[:2]] == [12, 12]
    assert max(map(len, seen)) == 12
    assert {"alpha~one", "alpha~two"} <= {job for found in seen for job in found}
    app.work_off()
    assert [app.read(job, "alpha").state for job in ("one", "two")] == [JobState.COMPLETE] * 2
    assert rows(app) == ([], None)


def test_the_row_of_a_limited_job_goes_once(app, monkeypatch):
    """When all of it has ended. It is not chosen again, which would read its row for nothing."""
    put_shares(app, "{rooms: {alpha: {most: 12}}}")
    accept(app, "alpha", "one", 10)
    removed, remove = [], ReadyTable.remove
    monkeypatch.setattr(ReadyTable, "remove", lambda own, rows: removed.extend(rows) or remove(own, rows))
    assert feed_slowly(app, []) is Fed.EMPTY
    assert [row.job for row in removed] == ["alpha~one"]


def test_a_limit_holds_for_the_next_feeder_too(app):
    """What the one before it put counts until it has ended, also of a job of which all was put."""
    put_shares(app, "{rooms: {alpha: {most: 12}}}")
    accept(app, "alpha", "one", 10)
    accept(app, "alpha", "two", 30)
    assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
    assert len(chunks_on_queue(app)) == 12
    feed = rows(app)[1]
    assert (feed.waiting, feed.limited, feed.chunks) == ({"alpha": 28}, {"alpha": 28}, 0)
    seen = []
    assert feed_slowly(app, seen) is Fed.EMPTY
    assert max(map(len, seen)) == 12
    app.work_off()
    assert [app.read(job, "alpha").state for job in ("one", "two")] == [JobState.COMPLETE] * 2


def test_chunks_beyond_a_limit_keep_no_other_room_waiting(app):
    """Its job fits, so it is put at once, without a row."""
    put_shares(app, "{rooms: {alpha: {most: 12}}}")
    accept(app, "alpha", "limited", 40)
    assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
    app.clock.advance(seconds=11)
    accept(app, "", "beside", 10)
    assert "beside" in chunks_on_queue(app)
    assert [key for key in rows(app)[0] if key.endswith("beside")] == []


def test_a_limit_that_is_lifted_lets_all_go(app):
    """Jobs that kept their rows for it keep them no longer."""
    put_shares(app, "{rooms: {alpha: {most: 12}}}")
    accept(app, "alpha", "one", 12)
    rests = []

    def lift(seconds):
        rests.append(seconds)
        if len(rests) == 1:
            put_shares(app, "{}")
            app.clock.advance(seconds=11)

    app.bus.complete(app.bus.waiting("permits"))
    assert replace(app.feeder, pause=lift).follow() is Fed.EMPTY
    assert (len(rests), len(chunks_on_queue(app)), rows(app)) == (2, 12, ([], None))


def test_an_urgent_job_runs_ahead_of_its_room(app):
    """By its share of the room's part of the window, before an older job that waits."""
    put_shares(app, "{urgent: 25%}")
    now = app.clock.now()
    app.stores.fleet.report(Worker(name="w", at=now, started_at=now, in_flight=4, done=10, busy=100.0))
    accept(app, "alpha", "flood", 120)
    app.bus.complete(app.bus.waiting("permits"))
    assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
    app.submit("soon", 40, "alpha", deadline=now + timedelta(minutes=5))
    app.clock.advance(seconds=11)
    app.deliver(submission_queue("alpha"))
    while app.deliver("work-00"):
        pass
    assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
    found = app.others.queues.get_queue_client("work-urgent").get_queue_properties().approximate_message_count
    assert found == LEAST_WINDOW // 4
    assert app.read("soon", "alpha").dispatch_cursor == found == LEAST_WINDOW // 4


def test_a_call_that_finds_the_right_to_feed_taken_ends_while_its_holder_lives(app):
    """Without a row of the holder it comes again: the holder may be about to end."""
    accept(app, "", "large", 100)
    app.bus.complete(app.bus.waiting("permits"))
    lease = app.stores.slots.lease_feeder()
    assert app.feeder.follow() is Fed.TAKEN
    assert len(app.bus.waiting("permits")) == 1
    lease.release()
    found = []

    def try_too(_seconds):
        if not found:
            found.append((app.feeder.follow(), len(app.bus.waiting("permits"))))
        app.go_on(1.0)

    app.bus.complete(app.bus.waiting("permits"))
    assert replace(app.feeder, pause=try_too).follow() is Fed.EMPTY
    assert found == [(Fed.TAKEN, 0)]


def test_the_tick_calls_a_feeder_if_the_call_was_lost(app):
    """The pointer beside the ready row stays until nothing waits."""
    accept(app, "", "large", 100)
    app.bus.complete(app.bus.waiting("permits"))
    app.app.tick()
    assert len(app.bus.waiting("permits")) == 1
    app.work_off()
    assert app.read("large").state is JobState.COMPLETE


def test_a_feeder_whose_time_is_up_hands_over_with_all_noted(app):
    """The next one puts no chunk twice."""
    accept(app, "", "large", 150)
    app.bus.complete(app.bus.waiting("permits"))
    while app.deliver("work-00"):
        pass
    assert replace(app.feeder, patience=0.0).follow() is Fed.HANDED_OVER
    feed = rows(app)[1]
    assert (feed.is_noted, len(app.bus.waiting("permits"))) == (True, 1)
    assert app.read("large").dispatch_cursor == 64 + 64
    app.work_off()
    assert app.read("large").state is JobState.COMPLETE
