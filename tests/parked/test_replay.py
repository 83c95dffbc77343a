"""Replaying: waves, what stops them, and that nothing counts twice or is forgotten, whatever dies when."""

from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest
from azure.data.tables import UpdateMode

from shared.operating.replay import ReplayFate, ReplayPace, Selection, summarize_causes
from shared.parked.entry import EntryState
from shared.watch import NeedKind, WatchTable
from tests.faults.plan import MODES, KilledError, Plan
from tests.left_out import every_tenth
from tests.parked.replaying import fates_of, replay_all
from tests.process.world import NOON

#: A replay of one chunk: a change here is a change of the bill.
RECORDED = [
    "GET parked",
    "GET parked",
    "POST audit",
    "PUT pending",
    "POST replays",
    "POST audit",
    "PUT replays",
    "GET parked",
    "GET parked",
    "PUT replays",
    "GET parked",
    "PUT parked",
    "POST work",
    "PUT parked",
    "PUT replays",
    "GET parked",
    "GET parked",
    "PUT parked",
    "POST $batch",
    "PUT replays",
    "GET replays",
]


@pytest.fixture
def make_ward(make_ward_in_memory):
    """Each has storage in memory."""
    return make_ward_in_memory


def replay(ward, pace=None, plan=None, pause=None, selection=None):
    """Replay everything of the ward in one process, and return the waves."""
    selection = selection or Selection(fingerprint=ward.entries[0].fingerprint)
    with ward.process(plan) as process:
        operator, wanted = ward.operator(process, pause), {world.job for world in ward.worlds}
        # Other tests park for the same cause: each replays its own.
        find = operator._find

        def find_own(selection, **options):
            selection, entries = find(selection, **options)
            return selection, [entry for entry in entries if entry.job in wanted]

        operator._find = find_own
        return replay_all(operator, selection, pace or ReplayPace(), why="deployed")


def test_a_replay_after_the_cause_is_gone_brings_everything_home(make_ward):
    """Nine chunks in waves of one, two, five and the rest; each is done afterwards, and counted once."""
    ward = make_ward(9)
    ward.is_broken = False
    waves = replay(ward)
    assert [wave.size for wave in waves] == [1, 2, 5, 1]
    assert {entry.state for entry in ward.entries} == {EntryState.DONE}
    assert [[one.accepted.items for one in world.sent if one.hash] for world in ward.worlds] == [[10]] * 9


def test_whoever_works_by_push_is_woken_for_each_message_that_is_put_back(make_ward):
    """After it is on its queue: the tick looks at the queues of unfinished jobs only, and this job has ended."""
    ward = make_ward(4)
    ward.is_broken = False
    replay(ward)
    assert ward.wakings == [True] * 4


def test_a_replay_stops_at_the_first_that_comes_back_for_the_same_cause(make_ward):
    """The cause is still there: one chunk was tried, the others were left alone."""
    ward = make_ward(4)
    (wave,) = replay(ward)
    assert fates_of([wave]) == [ReplayFate.SAME_AGAIN]
    assert ward.deliveries == 1
    first, *others = ward.entries
    assert (first.state, first.replays, first.returns, first.attempts) == (EntryState.OPEN, 1, 1, 10)
    assert [(entry.state, entry.replays) for entry in others] == [(EntryState.OPEN, 0)] * 3
    with ward.process(None) as process:
        watch = WatchTable(process.connections.tables.get_table_client("decisions"))
        need = watch.find(NeedKind.REPLAY_STOPPED, first.fingerprint)
        assert " stopped after 1 of 4: " in need.found
        # The next one that is begun for this cause ends it.
        ward.operator(process, None).ask_replay(Selection(fingerprint=first.fingerprint), ReplayPace(), by="ann")
        assert watch.find(NeedKind.REPLAY_STOPPED, first.fingerprint) is None


def test_what_comes_back_for_its_cause_is_known_at_its_first_failure(make_ward):
    """The worker fails once, and the replay stops: nobody waits for four more deliveries half a minute apart."""
    ward = make_ward(4)
    (wave,) = replay(ward, pause=lambda seconds: worked(ward, seconds, delivery=1))
    assert fates_of([wave]) == [ReplayFate.SAME_AGAIN]
    assert (ward.deliveries, ward.entries[0].attempts) == (1, 6)


def test_another_cause_has_all_its_deliveries(make_ward):
    """It may pass: the first failure of another kind parks nothing, the fifth does, and that stops no replay."""
    ward = make_ward(1)
    ward.worlds[0].workload.fault = raise_key_error
    with pytest.raises(KeyError):
        replay(ward, pause=lambda seconds: worked(ward, seconds, delivery=1))
    assert ward.entries[0].state is EntryState.REPLAYED


def raise_key_error(_sale):
    """Fail for another cause."""
    raise KeyError


def worked(ward, seconds, delivery):
    """Let the time pass, and the worker work on what comes for the so-manieth time."""
    ward.clock.advance(seconds)
    ward.work(delivery)


def test_a_replay_stops_when_nobody_works(ward):
    """No worker answers within the patience: nothing more is put on a queue that nobody empties."""
    (wave,) = replay(ward, ReplayPace(patience=30), pause=ward.clock.advance)
    assert fates_of([wave]) == [ReplayFate.NO_ANSWER]
    assert [entry.state for entry in ward.entries] == [EntryState.REPLAYED, EntryState.OPEN, EntryState.OPEN]


#: A row as version aa6d1e7 wrote it, and the causes that its chunks may fail for: its fingerprints name files.
BEFORE = {
    "PartitionKey": "nightly",
    "RowKey": "chunk-000000007-1",
    "stage": "process",
    "queue": "work-00",
    "reason": "failed:ZeroDivisionError",
    "found": "ZeroDivisionError: ",
    "instead": "correct the workload or what it depends on, deploy, then replay",
    "fingerprint": "d4d8c9beb1a5",
    "attempts": 5,
    "first_at": NOON,
    "last_at": NOON,
    "message_id": "m0",
    "sha256": "5d7eb4fbb4ae3b4bdd4d3d9dd7a6b8f8f5e0ed9f7ba1f6a9c3a5f3c6c1d7a2b4",
    "size": 461,
    "chunk": 7,
    "revision": 1,
    "claimed": "",
    "state": "open",
    "replays": 0,
    "returns": 0,
    "note": "",
    "nonce": "0011223344556677",
}


def written_before(ward):
    """Have the rows of the ward be such as that version left them; two of its files raised."""
    with ward.process() as process:
        table = process.connections.tables.get_table_client("parked")
        for number, entry in enumerate(ward.entries):
            row = dict(table.get_entity(entry.job, entry.key))
            own = {"PartitionKey", "RowKey", "queue", "message_id", "sha256", "size", "first_at", "last_at", "chunk"}
            old = BEFORE | {name: row[name] for name in own} | {"fingerprint": f"{number % 2}00000000000"}
            assert {*row} - {*old} == {"scheme", "place", "first_item", "failed_item"}
            table.update_entity(old, mode=UpdateMode.REPLACE)
    return ward


def test_a_replay_of_what_an_older_version_parked_stops_at_the_same_cause(make_ward):
    """Its fingerprint names files that moved since; the reason says that the cause is still there."""
    ward = written_before(make_ward(4))
    (wave,) = replay(ward)
    assert fates_of([wave]) == [ReplayFate.SAME_AGAIN]
    assert ward.deliveries == 1
    assert [entry.scheme for entry in ward.entries] == [2, None, None, None]
    assert len({entry.fingerprint for entry in ward.entries}) == 3
    (group,) = summarize_causes(ward.entries)
    assert (group.fingerprint, group.open) == (max(ward.entries, key=lambda one: one.last_at).fingerprint, 4)
    for entry in ward.entries:
        assert len(Selection(fingerprint=entry.fingerprint).select(ward.entries)) == 4
    assert len(Selection(fingerprint=ward.entries[0].fingerprint, key="other").select(ward.entries)) == 0


def test_what_an_older_version_parked_may_fail_for_another_cause(make_ward):
    """Another reason is another cause: the replay goes on."""
    ward = written_before(make_ward(2))
    ward.is_broken = False
    ward.worlds[0].workload.fault = lambda _sale: [].pop()
    waves = replay(ward)
    assert [fates_of([wave]) for wave in waves] == [[ReplayFate.OTHER_CAUSE], [ReplayFate.DONE]]
    assert len(summarize_causes(ward.entries)) == 2


def test_causes_of_one_reason_are_two_as_soon_as_no_older_entry_is_open(make_ward):
    """Only what names files makes it unclear which is which."""
    ward = make_ward(3)
    first, second, third = ward.entries
    older = replace(first, scheme=None)
    other = replace(second, fingerprint="0" * 12)
    assert [group.open for group in summarize_causes([older, other, third])] == [3]
    closed = replace(older, state=EntryState.DONE)
    assert [group.open for group in summarize_causes([closed, other, third])] == [2, 1]


def test_another_cause_does_not_stop_the_replay(ward):
    """What fails for something new is open again under its new cause; the others are tried."""
    ward.is_broken = False
    ward.worlds[0].workload.fault = lambda _sale: [].pop()
    waves = replay(ward)
    assert [fates_of([wave]) for wave in waves] == [
        [ReplayFate.OTHER_CAUSE],
        [ReplayFate.DONE, ReplayFate.DONE],
    ]
    assert ward.entries[0].reason == "failed:IndexError"
    assert ward.entries[0].fingerprint != ward.entries[1].fingerprint


def test_what_is_on_its_queue_is_not_put_there_again_unless_asked(ward):
    """A second replay finds nothing to do for what has not been heard of; `again` repeats it."""
    replay(ward, ReplayPace(limit=1), pause=ward.clock.advance)
    assert ward.entries[0].state is EntryState.REPLAYED
    ward.is_broken = False
    replay(ward, ReplayPace(limit=2))
    assert [entry.replays for entry in ward.entries] == [1, 1, 1]
    replay(ward, ReplayPace(again=True))
    assert {entry.state for entry in ward.entries} == {EntryState.DONE}
    assert [sum(bool(one.hash) for one in world.sent) >= 1 for world in ward.worlds] == [True] * 3
    assert len({one.hash for one in ward.worlds[0].sent if one.hash}) == 1


def test_the_limit_is_kept(ward):
    """Two of three are replayed, the oldest."""
    ward.is_broken = False
    replay(ward, ReplayPace(limit=2))
    assert [entry.state for entry in ward.entries] == [EntryState.DONE, EntryState.DONE, EntryState.OPEN]


def test_the_rate_is_kept(make_ward):
    """At four a second, a quarter of a second passes between two of a wave."""
    ward = make_ward(3)
    ward.is_broken = False
    replay(ward, ReplayPace(rate=4))
    assert ward.pauses.count(0.25) == 1


def test_a_discarded_entry_stays_with_its_reason_and_is_not_replayed(ward):
    """Its row says who said that nobody needs it."""
    job = ward.worlds[0].job
    with ward.process() as process:
        assert ward.operator(process).discard(Selection(job=job), by="ann", why="published again") == (1, 1, True)
        assert list(process.parked.entries(job)) == []
        (kept,) = process.parked.entries(job, closed=True)
    assert (kept.state, kept.note) == (EntryState.DISCARDED, "ann: published again")
    assert replay(ward, selection=Selection(job=job)) == ()


def test_discarding_needs_a_reason(ward):
    """Nobody can say later why it was not needed, so it is asked for now."""
    with ward.process() as process, pytest.raises(ValueError, match="needs a reason"):
        ward.operator(process).discard(Selection(job=ward.worlds[0].job), by="ann", why=" ")


def test_damaged_bytes_are_not_sent(ward):
    """What was parked is not what would be replayed: the entry stays for a person to decide."""
    entry = ward.entries[0]
    with ward.process() as process:
        container = process.connections.blobs.get_container_client("parked")
        container.upload_blob(entry.bytes_name, b"something else", overwrite=True)
    waves = replay(ward, ReplayPace(limit=1))
    assert [fates_of([wave]) for wave in waves] == [[ReplayFate.REFUSED]]
    assert ward.deliveries == 0


def test_the_recorded_requests_are_the_requests(make_ward):
    """What is enumerated below is everything that a replay sends."""
    ward, plan = make_ward(1), Plan()
    ward.is_broken = False
    replay(ward, plan=plan, selection=Selection(job=ward.worlds[0].job))
    assert [site.partition("-")[0] for site in plan.kinds] == RECORDED


@pytest.mark.parametrize(("at", "mode"), every_tenth(product(range(1, len(RECORDED) + 1), MODES)))
def test_one_fault_anywhere_in_a_replay_forgets_nothing(make_ward_in_memory, at, mode):
    """Another process goes on with the row, and the chunk is done once. Without a row, the operator asks again."""
    ward, plan = make_ward_in_memory(1), Plan.of(at, mode)
    ward.is_broken = False
    selection = Selection(job=ward.worlds[0].job)
    with suppress(KilledError, Exception):
        replay(ward, plan=plan, selection=selection)
    assert plan.fired
    ward.clock.advance(61)
    last = go_on(ward, selection)
    if last is None:
        replay(ward, selection=selection)
        last = go_on(ward, selection)
    assert ward.entries[0].state is EntryState.DONE
    assert last.counts == {ReplayFate.DONE: 1}
    world = ward.worlds[0]
    assert len({one.hash for one in world.sent if one.hash}) == 1


def go_on(ward, selection):
    """Have another process step the newest replay of a selection to its end, and return it."""
    with ward.process() as process:
        operator = ward.operator(process)
        found = next((one for one in operator.replays.newest(1000) if one.selection == selection), None)
        if found is None:
            return None
        return ([found, *operator.follow(found)])[-1]
