"""The store: one entry a key however often it is parked, proven bytes, and changes that two people cannot both make."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise

import pytest

from shared.errors import NotParkedError, ParkedTamperedError, RefusedError, StorageUnavailableError
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState
from shared.messages import Delivery, Finish, PortionMessage, Result, encode
from shared.operating.replay import WAVES, summarize_causes, waves
from shared.parked.entry import ACCEPT, NO_JOB, EntryState, chunk_key, job_note
from shared.parked.parking import (
    Claim,
    Parking,
    add_job_id,
    at_the_door,
    door_key,
    drain_poison,
    park_dead_result,
    read_claimed_job,
)
from shared.parked.poison_policy import CLEAN_HOUR, Attempts, Mark
from shared.telemetry import events
from tests.faults.plan import Plan, kind_of
from tests.gate.conftest import ManualClock
from tests.ledger.memory_ledger import MemoryLedger
from tests.parked.stages import stages
from tests.process.world import NOON, World


@pytest.fixture
def world(provisioned):
    """A chunk, and a job of its own."""
    return World(provisioned)


@pytest.fixture
def process(world):
    """A process whose store the test uses."""
    with world.process() as process:
        yield process


@pytest.fixture
def parking(process, world):
    """The way in."""
    return Parking(process.parked, world.clock, stages())


def park(parking, world, error, *, stage="process", deliveries=5, **changes):
    """Park the world's chunk as it was delivered."""
    delivery = Delivery(queue="work-00", message_id="m1", body=world.body, count=deliveries)
    claim = Claim(**{"key": chunk_key(0, 1), "job": world.job, "chunk": 0, "revision": 1, **changes})
    return parking.park(stage, delivery, error, claim)


WRONG = RefusedError("hash_mismatch", "it is another one", "upload it again")


def test_everything_about_a_failure_is_kept(world, parking, process):
    """Reason, what to do, where it came from, when, how often, and the very bytes."""
    park(parking, world, WRONG)
    entry = process.parked.get(world.job, chunk_key(0, 1))
    assert (entry.reason, entry.found, entry.instead) == ("hash_mismatch", "it is another one", "upload it again")
    assert (entry.stage, entry.queue, entry.message_id, entry.attempts) == ("process", "work-00", "m1", 5)
    assert (entry.chunk, entry.revision, entry.first_at, entry.last_at) == (0, 1, NOON, NOON)
    assert (entry.sha256, entry.size) == (sha256(world.body).hexdigest(), len(world.body))
    assert process.parked.body(entry) == world.body


def test_parking_twice_keeps_one_entry(world, parking, process):
    """A delivery that comes late is the same failure, seen again."""
    park(parking, world, WRONG)
    world.clock.advance(60)
    park(parking, world, WRONG, deliveries=6)
    (entry,) = process.parked.entries(world.job)
    assert (entry.attempts, entry.returns) == (6, 0)
    assert (entry.last_at - entry.first_at).total_seconds() == 60


def test_what_fails_after_it_was_discarded_is_open_again(world, parking, process):
    """The same submission dropped once more is not hidden by what somebody said of the first."""
    entry = park(parking, world, WRONG)
    process.parked.change(entry, replace(entry, state=EntryState.DISCARDED))
    assert list(process.parked.entries(world.job)) == []
    park(parking, world, WRONG)
    assert [one.state for one in process.parked.entries(world.job)] == [EntryState.OPEN]


def test_only_one_of_two_changes_takes_effect(world, parking, process):
    """Who changes an entry that somebody else changed since it was read is told so."""
    entry = park(parking, world, WRONG)
    assert process.parked.change(entry, replace(entry, state=EntryState.REPLAYING)) is not None
    assert process.parked.change(entry, replace(entry, state=EntryState.DISCARDED)) is None
    assert process.parked.get(world.job, entry.key).state is EntryState.REPLAYING


def test_text_that_no_row_can_hold_is_parked_all_the_same(world, parking, process):
    """Half a character in an exception, or a megabyte of it, must not keep a message from being parked."""
    park(parking, world, ValueError("\ud800" + "x" * 100_000))
    assert process.parked.get(world.job, chunk_key(0, 1)).found.startswith("ValueError: ?xxx")


def test_missing_bytes_are_said_to_be_missing(world, parking, process):
    """Nothing is replayed in their place."""
    entry = park(parking, world, WRONG)
    process.connections.blobs.get_container_client("parked").delete_blob(entry.bytes_name)
    with pytest.raises(ParkedTamperedError, match="are gone"):
        process.parked.body(entry)


def test_asking_for_what_is_not_parked_says_so(process):
    """A misspelt key is no empty answer."""
    with pytest.raises(NotParkedError, match="sluice parked list"):
        process.parked.get("no-such-job", "no-such-key")


def test_the_list_has_no_notes_of_deliveries(world, parking, process):
    """They lie in the same table."""
    park(parking, world, WRONG)
    process.attempts.note_begun(job_note(world.job, "x"), 3)
    jobs = [entry.job for entry in process.parked.entries(closed=True)]
    assert world.job in jobs
    assert all(not job.startswith("~attempts") for job in jobs)


def test_old_notes_are_removed_at_their_hour_only(world, process):
    """A process that dies between an effect and `forget` leaves one; and no table may grow without an end."""
    key, kept = job_note(world.job, "x"), timedelta(days=30)
    process.attempts.note_begun(key, 3)
    notes = process.connections.tables.get_table_client("parked")
    begun = datetime.now(UTC)
    remains = {}
    for name, now in {
        "young": begun.replace(hour=CLEAN_HOUR, minute=0) + timedelta(days=29),
        "not the hour": begun.replace(hour=CLEAN_HOUR, minute=1) + timedelta(days=32),
        "due": begun.replace(hour=CLEAN_HOUR, minute=0) + timedelta(days=32),
    }.items():
        Attempts(notes, ManualClock(now)).remove_old(kept)
        remains[name], _ = process.attempts.of(key)
    begun_once = {3: Mark.BEGUN}
    assert remains == {"young": begun_once, "not the hour": begun_once, "due": {}}


def test_failures_of_one_cause_are_one_group_over_lines_and_values(world, parking, process):
    """The same exception out of the same function is one cause, whatever it says and wherever in it."""

    def broken(value):
        if value > 1:
            raise KeyError(value)
        raise KeyError(-value)

    for number in range(3):
        with pytest.raises(KeyError) as error:
            broken(number)
        park(parking, world, error.value, key=f"k{number}")
    park(parking, world, WRONG, key="other")
    groups = summarize_causes(process.parked.entries(world.job))
    assert [(group.reason, group.open, group.jobs) for group in groups] == [
        ("failed:KeyError", 3, (world.job,)),
        ("hash_mismatch", 1, (world.job,)),
    ]


def test_waves_grow_and_lose_nothing(world, parking):
    """Every entry is in one wave, in order, and no wave is larger than the next size allows."""
    entry = park(parking, world, WRONG)
    entries = [replace(entry, key=str(number)) for number in range(150)]
    sizes = [len(wave) for wave in waves(entries)]
    assert [one for wave in waves(entries) for one in wave] == entries
    assert sizes[: len(WAVES)] == list(WAVES)
    assert all(size <= WAVES[-1] for size in sizes)
    assert all(left <= right for left, right in pairwise(sizes[:-1]))


def test_a_poison_queue_is_drained_into_the_same_place(world, parking, process, told):
    """A chunk that the host gave up on is parked under its own key, and the ledger is told."""
    queue = process.connections.queues.create_queue(f"work-{world.job[-8:]}-poison")
    for body in (world.body.decode(), "not json", encode(Finish(job=world.job, revision=2)).decode()):
        queue.send_message(body)
    sent = []
    telling = Parking(process.parked, world.clock, stages(send=sent.append))
    assert drain_poison(queue, telling, process.attempts) == 3
    assert drain_poison(queue, telling, process.attempts) == 0
    assert told(events.POISON_DRAINED) == [{"queue": queue.queue_name, "messages": 3}]
    assert {entry.key for entry in process.parked.entries(world.job)} == {chunk_key(0, 1), "finish-2"}
    assert {entry.reason for entry in process.parked.entries(world.job)} == {"delivered_too_often"}
    assert "not json" in {process.parked.body(entry).decode() for entry in process.parked.entries(NO_JOB)}
    assert [(one.reason, one.parked) for one in sent] == [("delivered_too_often", PortionMessage(items=10, sums=None))]


def test_an_empty_poison_queue_costs_one_request(world):
    """It is looked at every quarter of an hour, for ever."""
    plan = Plan()
    with world.process(plan) as process:
        queue = process.connections.queues.create_queue(f"work-empty-{world.job[-8:]}-poison")
        plan.sites.clear()
        drain_poison(queue, Parking(process.parked, world.clock, stages()), process.attempts)
    assert len(plan.sites) == 1


def test_a_message_that_cannot_be_parked_stays_on_the_poison_queue(world, process):
    """The bus is down after the entry was written: the message is there at the next look."""

    def down(_result):
        raise StorageUnavailableError("down")

    queue = process.connections.queues.create_queue(f"work-kept-{world.job[-8:]}-poison")
    queue.send_message(world.body.decode())
    with pytest.raises(StorageUnavailableError):
        drain_poison(queue, Parking(process.parked, world.clock, stages(send=down)), process.attempts)
    assert queue.get_queue_properties().approximate_message_count == 1


def test_a_dead_result_is_parked_beside_its_chunk(world, parking, process):
    """What the bus gave up on has its own key: the chunk may be done or parked for itself."""
    body = encode(Result(job=world.job, chunk=0, revision=1, blob=f"{world.job}/1/0", hash="0" * 64))
    park_dead_result(parking, body, "m7", "MaxDeliveryCountExceeded")
    (entry,) = process.parked.entries(world.job)
    assert (entry.stage, entry.reason, entry.chunk) == ("settle", "dead_lettered", 0)
    assert "MaxDeliveryCountExceeded" in entry.found


def test_a_submission_is_known_by_its_job_and_its_bytes():
    """The one that a replay names is the one that was parked; without an id, each message is a job of its own."""
    bare, other = b'{"sluice": {"items": [{"a": 1}]}}', b'{"sluice": {"items": [{"a": 2}]}}'
    keys = [
        at_the_door("submissions", body, name, name).key
        for body, name in ((bare, "m-1"), (bare, "m-2"), (other, "m-1"))
    ]
    assert len(set(keys)) == 3
    again = add_job_id(bare, "m-1")
    assert at_the_door("submissions", again, "m-9", read_claimed_job("submissions", again, "m-9")).key == keys[0]


def test_two_that_nobody_can_name_are_two_entries():
    """They may be two jobs of one content: under one key, one of them would be lost."""
    bare = b'{"sluice": {"items": [{"a": 1}]}}'
    keys = {at_the_door("submissions", bare, name, NO_JOB).key for name in ("p-1", "p-2")}
    assert len(keys) == 2


def test_submissions_that_differ_in_an_impossible_job_id_are_two_entries():
    """Neither claims a job: under one key, the bytes of the second would be kept nowhere."""
    first, second = (b'{"sluice":{"job":"%s","items":[{"a":1}]}}' % job for job in (b"A/1", b"A/2"))
    assert read_claimed_job("submissions", first, "m1") == read_claimed_job("submissions", second, "m2") == NO_JOB
    assert door_key("submissions", first, NO_JOB) != door_key("submissions", second, NO_JOB)


@pytest.mark.parametrize(
    ("body", "job", "sent"),
    [
        (b'{"sluice":{"items":[]}}', "m-1", b'{"sluice":{"items":[],"job":"m-1"}}'),
        (b'{"sluice":{"job":"mine","items":[]}}', "mine", b'{"sluice":{"job":"mine","items":[]}}'),
        (b'{"sluice":{"items":[]}}', NO_JOB, b'{"sluice":{"items":[]}}'),
        (b'{"sluice":{"job":null,"items":[]}}', "m-1", b'{"sluice":{"job":"m-1","items":[]}}'),
        (b"eyJzbHVpY2UiOnsiaXRlbXMiOltdfX0=", "m-1", b'{"sluice":{"items":[],"job":"m-1"}}'),
        (b'{"sluice":{"kind":"chunk","items":[]}}', "m-1", b'{"sluice":{"kind":"chunk","items":[]}}'),
        (b'{"sluice":{"items":[{"a":1,"a":2}]}}', "m-1", b'{"sluice":{"items":[{"a":1,"a":2}]}}'),
        (b"no json", "m-1", b"no json"),
        (b"[]", "m-1", b"[]"),
    ],
)
def test_a_replayed_submission_says_which_job_it_is(body, job, sent):
    """Without an id of its own, each copy of it would become a job of its own."""
    assert add_job_id(body, job) == sent


@pytest.mark.parametrize(
    ("state", "is_landed"), [(None, False), (ChunkState.PARKED, False), (ChunkState.DONE, True)], ids=str
)
def test_a_chunk_has_landed_when_the_ledger_has_it_as_done(world, parking, state, is_landed):
    """Neither a stored result nor a message on its way is enough to forget what was parked."""
    entry, ledger = park(parking, world, WRONG), MemoryLedger()
    job, _ = ledger.insert(Job(job=world.job, content_hash="c", workload="sales", accepted_at=NOON))
    rows = [ChunkRow(job=world.job, chunk=0, state=state, revision=1, settled_at=NOON)] if state else []
    ledger.commit(job, rows)
    assert stages(ledger).find(entry.stage).has_landed(entry) is is_landed


def test_a_job_that_was_there_before_is_not_what_a_replayed_submission_became(world, parking):
    """The submission was refused because another one has its id: that one's acceptance is not its own."""
    entry = park(parking, world, WRONG, stage=ACCEPT, key="accept-1", chunk=None, revision=None)
    ledger = MemoryLedger()
    has_landed = stages(ledger).find(ACCEPT).has_landed
    assert not has_landed(entry)
    ledger.insert(Job(job=world.job, content_hash="c", workload="sales", accepted_at=NOON))
    assert has_landed(entry)
    assert not has_landed(replace(entry, last_at=NOON.replace(hour=13)))


def test_a_finish_has_landed_when_the_job_is_finished(world, parking):
    """At its revision or a later one."""
    entry, ledger = park(parking, world, WRONG, stage="finish", key="finish-2", chunk=None, revision=2), MemoryLedger()
    job = Job(job=world.job, content_hash="c", workload="sales", accepted_at=NOON, revision=2)
    job, _ = ledger.insert(replace(job, state=JobState.FINISHING))
    assert not stages(ledger).find(entry.stage).has_landed(entry)
    ledger.commit(replace(job, state=JobState.COMPLETE))
    assert stages(ledger).find(entry.stage).has_landed(entry)


def at_site(site, mode):
    """Return a plan that strikes the first request to a site."""

    class AtSite(Plan):
        def take(self, found, **_details):
            self.sites.append(found)
            if self.fired or kind_of(found) != site:
                return ""
            self.fired.add(found)
            return mode

    return AtSite()


@pytest.mark.parametrize("mode", ["reset_after", "503_after"])
def test_an_insert_without_an_answer_is_looked_up_and_not_repeated(world, mode):
    """The row is there although nobody said so: it is known by its nonce, as if the reply had come."""
    plan = at_site("POST parked", mode)
    with world.process(plan) as process:
        entry = park(Parking(process.parked, world.clock, stages()), world, WRONG)
        assert entry.nonce == process.parked.get(world.job, entry.key).nonce
    assert plan.fired
    assert plan.kinds.count("PUT parked") == 1


@pytest.mark.parametrize("mode", ["reset_after", "503_after"])
def test_a_change_without_an_answer_is_known_as_ones_own(world, parking, mode):
    """The library sends it again and is refused, because the first one took effect: that is no lost race."""
    entry = park(parking, world, WRONG)
    plan = at_site("PUT parked", mode)
    with world.process(plan) as process:
        changed = process.parked.change(entry, replace(entry, state=EntryState.REPLAYING))
        assert changed is not None
        assert changed.etag == process.parked.get(world.job, entry.key).etag
    assert plan.fired


def test_two_spellings_that_a_reader_may_take_for_one_are_two_entries():
    """A key that stands twice, plainly or escaped: what one reader drops must not cost the other its bytes."""
    plain = b'{"sluice": {"job": "j", "items": [{"a": 1}], "items": [{"a": 2}]}}'
    escaped = b'{"sluice": {"job": "j", "items": [{"a": 1}], "\\u0069tems": [{"a": 2}]}}'
    assert door_key("submissions", plain, "j") != door_key("submissions", escaped, "j")


def test_amounts_that_a_double_cannot_tell_apart_are_two_entries_and_stay_as_they_are():
    """A sum is exact: rounded by the key or by a replay, a submission would be another one."""
    first, second = (b'{"sluice": {"items": [{"amount": 1.%s}]}}' % digits for digits in (b"0" * 20, b"0" * 19 + b"1"))
    assert door_key("submissions", first, "j") != door_key("submissions", second, "j")
    assert b"1." + b"0" * 19 + b"1" in add_job_id(second, "job-7")


def test_a_room_is_its_queues_to_say():
    """The same words from another queue are about another job, and a replay says them where they came from."""
    body = b'{"sluice":{"items":[]}}'
    assert [read_claimed_job(queue, body, "m-1") for queue in ("submissions", "submissions-a-b")] == ["m-1", "a-b~m-1"]
    assert add_job_id(body, "a-b~m-1") == b'{"sluice":{"items":[],"job":"m-1"}}'
    assert read_claimed_job("submissions", b'{"sluice":{"job":"a-b~m-1"}}') == NO_JOB


def test_the_same_bytes_of_two_rooms_are_two_entries():
    """Under one key the second room's message would be kept nowhere, and a replay of it would go to the first."""
    body = b'{"sluice":{"job":"a","items":[{}]}}'
    queues = ("submissions", "submissions-a", "submissions-b")
    keys = {at_the_door(queue, body, "m", read_claimed_job(queue, body, "m")).key for queue in queues}
    assert len(keys) == 3
    bare = b'{"sluice":{"items":[{}]}}'
    named_by = {at_the_door(queue, bare, "m", read_claimed_job(queue, bare, "m")).key for queue in queues}
    assert len(named_by) == 3
