"""Fills an installation with jobs, gates, parked messages and decisions, as the app would leave them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256

from shared.azure import Governor
from shared.concurrency import Decision
from shared.concurrency.fleet import FleetChange, Worker
from shared.concurrency.rules import Observation
from shared.gate.held import HeldEntry
from shared.grammar import amounts
from shared.ledger import ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Totals
from shared.ledger.records import Sources
from shared.ledger.table_ledger import UNDER_WAY
from shared.parked.entry import Entry, chunk_key
from shared.pending import JOB_POINTER, Pointer
from shared.pipeline.sweep import warn
from shared.watch import Act, Need, NeedKind, Point, SpentUntil

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ITEMS = 1000


def make_job(name, *, chunks=10, done=0, parked=0, **changes):
    """Return a job of which so many chunks have ended."""
    totals = Totals(
        accepted=Portion(done * ITEMS, amounts({"amount": str(done * Decimal("12.5"))})),
        parked=Portion(parked * ITEMS, amounts({"amount": str(parked * Decimal("12.5"))})),
    )
    made = Job(
        job=name,
        content_hash="c0ffee",
        workload="billing",
        accepted_at=NOON - timedelta(minutes=10),
        state=JobState.RUNNING,
        items=chunks * ITEMS,
        chunks=chunks,
        done=done,
        parked_chunks=parked,
        totals=totals,
        declared=amounts({"amount": str(chunks * Decimal("12.5"))}),
        id_base=1_000_000,
        plan=PlanBlob(f"{name}/plan", '"0x1"'),
        dispatch_cursor=chunks,
        started_at=NOON - timedelta(minutes=9),
        progressed_at=NOON - timedelta(seconds=20),
        requests={"table useful": 40 + chunks, "blob-read useful": chunks, "blob-write useful": 2 * chunks},
    )
    return replace(made, **changes)


def put_job(stores, job, *, is_open=True):
    """Store a job with the rows of its ended chunks, its needs as the tick finds them, and its pointer."""
    stored, _ = stores.ledger.insert(job)
    if job.state in UNDER_WAY:
        stored = stores.ledger.commit(replace(stored, listed_at=None))
    states = [ChunkState.DONE] * job.done + [ChunkState.PARKED] * job.parked_chunks
    rows = [
        ChunkRow(job=job.job, chunk=number, state=state, revision=1, settled_at=NOON)
        for number, state in enumerate(states)
    ]
    for first in range(0, len(rows), 99):
        stored = stores.ledger.commit(stored, rows[first : first + 99])
    stores.ledger.tell_needs(warn(stores.ledger, stored, NOON))
    if is_open:
        stores.pending.add(Pointer(JOB_POINTER, NOON + timedelta(minutes=5), job.job))
    return stored


def fill_night(stores, night):
    """Store two files that are rated, one of which is paused, and an invoice run that waits for both. Return their names."""
    names = f"{night}-rate-1", f"{night}-rate-2", f"{night}-invoice"
    ended = {"state": JobState.COMPLETE, "finished_at": NOON, "waiters": (names[2],), "done": 10}
    paused = {"state": JobState.PAUSED, "problem": "wrong tariff", "by": "kim", "done": 4}
    waits = {"state": JobState.HELD, "waits": names[:2], "from_jobs": Sources(2, {}), "plan": None}
    for name, more in zip(names, (ended, paused, waits), strict=True):
        put_job(stores, make_job(name, night=night, **more), is_open=False)
    return names


def make_entry(job, chunk, **changes):
    """Return the entry of a chunk that failed for good."""
    body = f"{job} {chunk}".encode()
    made = Entry(
        job=job,
        key=chunk_key(chunk, 1),
        stage="process",
        queue="work-00",
        reason="failed:ValueError",
        found="ValueError: no rate for CHF",
        instead="correct the workload or what it depends on, deploy, then replay",
        fingerprint="3146415e4c0f77aa90",
        attempts=5,
        first_at=NOON - timedelta(hours=3),
        last_at=NOON - timedelta(minutes=2),
        message_id="6f1d2c7e-0000-4000-8000-000000000001",
        sha256=sha256(body).hexdigest(),
        size=len(body),
        chunk=chunk,
        revision=1,
        first_item=chunk * ITEMS,
        place="invoices.py:29 map < run.py:100 run_chunk",
        scheme=1,
    )
    return replace(made, **changes)


def park(stores, entry):
    """Store an entry with its bytes."""
    body = f"{entry.about} {entry.chunk}".encode()
    return stores.parked_table.park(replace(entry, sha256=sha256(body).hexdigest()), body)


def hold(stores, gate, number, since=NOON):
    """Hold so many entries behind a gate."""
    for one in range(number):
        entry = HeldEntry(gate=gate, id=f"held-{one:03}", epoch=0, queue="work-00", message="{}", held_at=since)
        stores.held.insert(entry)


def decide(stores, *, tasks=6, reason="work waits, nothing pushes back", workers=("a1b2c3d4e5",), governors=None):
    """Store a decision with its terms, and the reports of processes."""
    observation = Observation(depth=312, latency=0.8, payload_bytes=90_000.0)
    decision = Decision(
        tasks=tasks,
        at=NOON - timedelta(seconds=40),
        terms={"rules": 32, "share": 8, "storage": None, "downstream": tasks},
        binding="downstream",
        reason=reason,
        observation=observation,
    )
    seen = stores.fleet.read()
    change = FleetChange(decision=decision, governors=governors or {"storage": Governor()})
    assert stores.fleet.commit(seen, change)
    for name in workers:
        report = Worker(
            name=name,
            at=NOON - timedelta(seconds=3),
            started_at=NOON - timedelta(minutes=9),
            in_flight=4,
            done=1204,
            busy=900.0,
            cpu=0.82,
            chunks=1204,
            stored=10_000_000,
        )
        stores.fleet.report(report)


def put_messages(connections, queue, number):
    """Put messages on a storage queue."""
    client = connections.queues.get_queue_client(queue)
    for one in range(number):
        client.send_message(f"{one}")


#: The tick stood still from 02:13 to 02:33.
STOPPED, WENT_ON = NOON - timedelta(hours=9, minutes=47), NOON - timedelta(hours=9, minutes=27)


def fill_day(stores):
    """Store a day of ticks: busy in the night, an opening, a paused job, an upgrade, twenty minutes without a tick."""
    watch = stores.watch
    moment = NOON - timedelta(days=1)
    while moment <= NOON:
        is_busy = moment.hour in {1, 2}
        if not STOPPED < moment < WENT_ON and (is_busy or moment.minute % 15 == 0):
            busy = {
                "seconds": 60.0,
                "transactions": 60_000,
                "depth": 400,
                "tasks": 100,
                "arrived": 9,
                "binding": "rule",
            }
            head = {
                "second": 0.0,
                "promise": 180 if is_busy else 1020,
                "release": "0.4.9" if moment.hour < 6 else "0.5.0",
            }
            has_read = is_busy and moment.minute % 10 == 0
            spent = SpentUntil(moment, {"useful": 0.001 * (moment.hour * 60 + moment.minute)}) if has_read else None
            watch.record(moment, Point(**head, **(busy if is_busy else {})), None, spent)
        moment += timedelta(minutes=1)
    watch.note_act(Act(NOON - timedelta(hours=11), "dana", "gate open", "nightly", "opened"))
    watch.begin(Need(NeedKind.PAUSED, "night-job", "its plan is gone", NOON - timedelta(hours=10)))
    watch.end(NeedKind.PAUSED, "night-job", NOON - timedelta(hours=8))
    watch.begin(Need(NeedKind.LATE, "late-job", "", NOON - timedelta(hours=1), is_grave=False))
