"""Fixed values of everything that is stored: each with all of its columns, and each with as few as can be."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from types import MappingProxyType

from tests.golden import parts as p

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1, milliseconds=250)
SHA = "5d7eb4fbb4ae3b4bdd4d3d9dd7a6b8f8f5e0ed9f7ba1f6a9c3a5f3c6c1d7a2b4"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AMOUNTS = MappingProxyType({"amount": Decimal("1234567890.10"), "tax": Decimal("-0.01")})

TOTALS = p.Totals(
    accepted=p.Portion(9, AMOUNTS),
    rejected=p.Portion(1, MappingProxyType({"amount": Decimal(3)})),
    parked=p.Portion(2, unknown=1),
)
ROWS = [
    p.ChunkRow(
        job="nightly",
        chunk=0,
        state=p.ChunkState.DONE,
        revision=2,
        settled_at=LATER,
        totals=TOTALS,
        blob="nightly/2/0",
        hash=SHA,
        milliseconds=2**31,
    ),
    p.ChunkRow(
        job="nightly",
        chunk=1,
        state=p.ChunkState.PARKED,
        revision=1,
        settled_at=NOON,
        reason="failed:ZeroDivisionError",
    ),
]
FULL = p.Job(
    job="nightly",
    content_hash=SHA,
    story=(p.Told(p.JobState.HELD, NOON, 1, "gate ä, epoch 1"), p.Told(p.JobState.COMPLETED_WITH_PARKED, LATER, 2)),
    workload="billing",
    accepted_at=NOON,
    listed_at=NOON,
    state=p.JobState.COMPLETED_WITH_PARKED,
    gate="morning",
    held_epoch=3,
    passed_epoch=4,
    deadline=NOON + timedelta(days=1),
    warned=p.Risk.PREDICTED_LATE,
    items=12,
    chunks=2,
    declared=AMOUNTS,
    id_base=2**40,
    plan=p.PlanBlob(f"nightly/{SHA}", '"0x8DD"', "plans"),
    revision=2,
    done=1,
    parked_chunks=1,
    totals=TOTALS,
    dispatch_cursor=2,
    lane="work-urgent",
    started_at=NOON + timedelta(seconds=1),
    progressed_at=NOON + timedelta(seconds=2),
    finished_at=NOON + timedelta(seconds=3),
    nudged_at=NOON + timedelta(minutes=10),
    put_until=NOON + timedelta(minutes=9),
    again_from=2,
    forgiven=1,
    problem="12 items went in, 11 came out",
    milliseconds=2**33,
    requests=MappingProxyType({"blob-write useful": 3, "table retry": 1}),
    trace=TRACE,
)
STORY = (p.Told(p.JobState.PLANNING, NOON, 1),)
LEAST = p.Job(job="team-a~least", content_hash=SHA, workload="sales", accepted_at=LATER, listed_at=NOON, story=STORY)
EVENT = p.OutgoingMessage("000000002", p.JOB_EVENTS, b'{"sluice":{"kind":"completed"}}')
JOBS = [(FULL, ROWS, [EVENT]), (LEAST, [], [])]

HELD = [
    p.HeldEntry(
        gate="morning", id="nightly", epoch=3, queue="call:dispatch", message='{"sluice":{"job":"ä"}}', held_at=NOON
    ),
    p.HeldEntry(gate="morning", id="other", epoch=0, queue="work-07", message="text", held_at=LATER),
    p.HeldEntry(
        gate="morning",
        id="urgent",
        epoch=0,
        queue="submissions",
        message="text",
        held_at=LATER,
        deadline=LATER,
        chunks=9,
        slice=3,
    ),
]

POINTERS = [
    p.Pointer("finish", NOON + timedelta(minutes=3), "nightly:2"),
    p.Pointer("gate", datetime(1970, 1, 1, tzinfo=UTC), "morning", note="nightly"),
    p.Pointer("job", NOON + timedelta(minutes=10), "team-a~least"),
]

REPLAYS = [
    p.Replay(
        id="20261120-120000-0d0d0d0d",
        who="ann",
        why="the rate of ü is there",
        asked_at=NOON,
        selection=p.Selection(
            fingerprint="4d51c40c3315", job="nightly", key="chunk-000000007-2", reason="failed:KeyError"
        ),
        pace=p.ReplayPace(limit=100, rate=2.5, patience=60.0, again=True),
        entries=12,
        state=p.ReplayState.STOPPING,
        owner="tick-0a0b0c0d",
        until=LATER,
        after=("4d51c40c3315", "nightly", "chunk-000000007-2"),
        taken=3,
        begun=2,
        counts={p.ReplayFate.DONE: 1},
        waves=(p.Wave(number=1, counts={p.ReplayFate.DONE: 1}, began_at=NOON, ended_at=LATER),),
        out=p.WaveOut(
            entries=(
                p.SentEntry("nightly", "chunk-000000007-2", 1, 0, "failed:KeyError", "4d51c40c3315", 2),
                p.SentEntry("~door", "k", 2, 1, "no_such_job", "9f", None, p.ReplayFate.SKIPPED),
            ),
            began_at=LATER,
            sent_at=LATER,
        ),
        moved_at=LATER,
        stopped_by="bo",
        result="stopped by bo: 1 done",
    ),
    p.Replay(
        id="20261120-115900-0c0c0c0c",
        who="ann",
        why="",
        asked_at=NOON,
        selection=p.Selection(),
        pace=p.ReplayPace(),
        entries=1,
        moved_at=NOON,
    ),
]

#: A replay of two entries that a person chose.
PICKED = [
    p.structs.replace(
        REPLAYS[1],
        selection=p.Selection(fingerprint="4d51c40c3315").pick([("nightly", "chunk-000000007-2"), ("~door", "k")]),
        entries=2,
    )
]

CHANGES = (
    p.GateChange(what=p.ChangeKind.SCHEDULE, epoch=2, by="ann", why="tonight", at=NOON, nonce="0a0a0a0a0a0a0a0a"),
    p.GateChange(what=p.ChangeKind.OPEN, epoch=3, by="ann", why="ü", at=LATER, nonce="0b0b0b0b0b0b0b0b"),
    p.GateChange(what=p.ChangeKind.CLOSE, epoch=3, by="tick", why="", at=LATER, nonce="0c0c0c0c0c0c0c0c"),
)
GATES = {
    "never opened": p.GateState(),
    "full": p.GateState(
        epoch=3,
        is_open=True,
        opened_by="ann",
        why="ü",
        at=LATER,
        once=True,
        scheduled=p.Opening(at=NOON + timedelta(days=1), by="bob", why="every night", once=True),
        nonce="0c0c0c0c0c0c0c0c",
        changes=CHANGES,
    ),
}

TIMETABLES = (
    {
        "nightly": p.TimetableRow(
            line="0 2 * * mon-fri", zone="Europe/Berlin", minutes=10, by="ann", why="ü", set_at=NOON, nonce=""
        ),
        "sale": p.TimetableRow(line="*/15 * * * *", zone="UTC", minutes=None, by="bob", why="", set_at=LATER, nonce=""),
    },
    [
        p.Pointer(p.TIMETABLE_POINTER, NOON + timedelta(hours=13), "nightly"),
        p.Pointer(p.TIMETABLE_POINTER, NOON, "sale", note="set"),
    ],
)

_DRAWN = p.GateState(epoch=3, is_open=True, opened_by="ann", why="ü", at=LATER, seed="0b" * 32)
ROLL = (
    p.HeldEntry(
        gate="sale", id="late", epoch=3, queue="bus:starts", message="text", held_at=LATER, slice=3, number=1007
    ),
    _DRAWN,
    p.make_roll(
        "sale",
        _DRAWN,
        [
            p.RollPlace("first", 2007, "2026-11-20T12:00:00.1234567Z"),
            p.RollPlace("of before", None, "2026-11-20T12:00:00Z"),
        ],
    ),
)

RECEIPTS = [
    p.Receipt(
        gate="morning",
        epoch=3,
        node="release@host:1",
        how=p.SeenBy.PUSH,
        seen_at=LATER,
        lag=timedelta(milliseconds=250),
        interval=timedelta(seconds=30),
    ),
    p.Receipt(gate="morning", epoch=4, node="host:2", how=p.SeenBy.START_UP, seen_at=NOON, lag=timedelta()),
]

FIRST_CHUNKS = [
    p.FirstChunk(
        gate="morning", epoch=3, how=p.SeenBy.PUSH, node="host:1", opened_at=NOON, began_at=NOON + timedelta(seconds=1)
    ),
    p.FirstChunk(gate="morning", epoch=4, how=p.SeenBy.POLL, node="host:1", opened_at=LATER, began_at=LATER),
]

ENTRY_BODY = b'{"sluice":{"kind":"chunk"}}'
ENTRIES = [
    p.Entry(
        job="nightly",
        key=p.chunk_key(7, 2),
        stage=p.PROCESS,
        queue="work-00",
        reason="failed:ZeroDivisionError",
        found="ZeroDivisionError: division by zero",
        instead="correct the workload or what it depends on, deploy, then replay",
        fingerprint="d4d8c9beb1a5",
        scheme=2,
        attempts=5,
        first_at=NOON,
        last_at=LATER,
        message_id="m1",
        sha256=sha256(ENTRY_BODY).hexdigest(),
        size=len(ENTRY_BODY),
        chunk=7,
        revision=2,
        first_item=7001,
        failed_item=3_000_000_017,
        place="sales.py:12 map < run.py:87 _map_each",
        state=p.EntryState.REPLAYED,
        replays=2,
        returns=1,
        note="ann: published again",
    ),
    p.Entry(
        job=p.DOOR,
        key=p.door_key("submissions", ENTRY_BODY, "nightly"),
        stage=p.ACCEPT,
        queue="submissions",
        reason="not_json",
        found="it ends at byte 7",
        instead="send JSON",
        fingerprint="0123456789ab",
        scheme=2,
        attempts=1,
        first_at=NOON,
        last_at=NOON,
        message_id="m2",
        sha256=sha256(ENTRY_BODY).hexdigest(),
        size=len(ENTRY_BODY),
        claimed="nightly",
    ),
]

OBSERVATION = p.Observation(
    depth=120, hour=13, oldest_age=4.5, arrival_rate=10.25, drain_rate=9.5, cpu=0.75, latency=0.125, in_flight=16
)
DECISION = p.Decision(
    tasks=40,
    at=LATER,
    terms={"rule": 120, "governor": 40, "budget": None},
    binding="governor",
    reason="storage pushes back, 50% of the full rate",
    rules_version=3,
    pressed_at=NOON,
    observation=OBSERVATION,
)
FIRST_DECISION = p.Decision(0, NOON, {"rule": 0}, "rule", "the queues are empty")
GOVERNORS = {
    "storage": p.Governor(share=0.5, slowed_at=NOON, quiet_until=LATER, seen_at=NOON, times=2),
    "bus": p.Governor(),
}
WORKERS = [
    p.Worker(name="w1", at=LATER, started_at=NOON, in_flight=3, done=1000, busy=12.5, cpu=0.25, share=0.5),
    p.Worker(name="w2", at=LATER, started_at=NOON, in_flight=0, done=0, busy=0.0),
]
RULES = """version: 3
most: 100
rules:
  - name: night
    when: {hour: {at_least: 22, below: 6}, depth: {at_least: 1000}}
    empty_within: 30m
    until_known: 50
  - name: otherwise
    tasks: 10
"""

PARTS_PLAN = p.Plan(
    job="parts",
    workload="billing",
    source=p.PayloadSource(codec="zstd", blob=f"parts/{SHA}"),
    chunks=[
        p.PlannedChunk(p.PartPlace(0, 0, 60), [(0, 100, 100, SHA)]),
        p.PlannedChunk(p.PartPlace(60, 60, 60), [(0, 100, 100, SHA), (100, 50, 20, SHA)]),
        p.PlannedChunk(120, [(150, 70, 2, SHA)]),
    ],
)

PLAN = p.Plan(
    job="nightly",
    workload="billing",
    source=p.PayloadSource(codec="zstd", blob=f"nightly/{SHA}", is_kept=True),
    chunks=[p.PlannedChunk(0, [(0, 100, 2, SHA), (100, 50, 1, SHA)]), p.PlannedChunk(3, [(150, 70, 2, SHA)])],
)
INLINE_PLAN = p.Plan(
    job="team-a~least",
    workload="sales",
    source=p.PayloadSource(codec="plain", inline="e30K"),
    chunks=[p.PlannedChunk(0, [])],
)

SMALL = p.Job(
    job="team-a~small",
    content_hash=SHA,
    workload="sales",
    accepted_at=LATER,
    listed_at=LATER,
    state=p.JobState.DISPATCHING,
    items=1,
    chunks=1,
    id_base=7,
    plan=p.PlanText(p.structs.replace(INLINE_PLAN, job="team-a~small").encode().decode()),
    dispatch_cursor=1,
    started_at=LATER,
    story=(p.Told(p.JobState.DISPATCHING, LATER, 1),),
)

#: A job that is under way, as its row and the list have it.
UNDER_WAY = replace(
    SMALL,
    job="team-a~long",
    state=p.JobState.RUNNING,
    listed_open=True,
    story=(p.Told(p.JobState.RUNNING, LATER, 1),),
)

#: A job that was paused twice, its halt row, and the pointer to that.
HALTED = (
    replace(
        SMALL,
        job="team-a~wrong",
        state=p.JobState.PAUSED,
        by="ann",
        halts=2,
        problem="wrong tariff",
        story=(p.Told(p.JobState.PAUSED, LATER, 1, "wrong tariff"),),
    ),
    {"team-a~wrong": 2},
    p.Pointer("halt", NOON + timedelta(minutes=3), "team-a~wrong", note=f"2 {LATER.isoformat()} 1"),
)

#: A job that was erased, before nothing of it was found and after that, and its pointer.
ERASED = (
    p.Job(
        job="team-a~gone",
        content_hash="",
        workload="sales",
        accepted_at=LATER,
        finished_at=LATER,
        erased_at=LATER,
        listed_at=LATER,
        state=p.JobState.ERASED,
        items=40,
        chunks=2,
        plan=p.PlanBlob("team-a~gone/" + SHA, '"0x1"', "plans"),
        file="uploads/gone.ndjson",
        put_until=LATER,
        by="ann",
        halts=1,
        problem="request 4711",
        story=(p.Told(p.JobState.ERASED, LATER, 1, "request 4711"),),
    ),
    p.Job(
        job="team-a~proven",
        content_hash="",
        workload="sales",
        accepted_at=LATER,
        finished_at=LATER,
        erased_at=LATER,
        proven_at=LATER,
        listed_at=LATER,
        state=p.JobState.ERASED,
        proof={"containers": 5, "found": 0, "queues": 4, "tables": 7},
        by="ann",
        halts=1,
        problem="request 4711",
        story=(p.Told(p.JobState.ERASED, LATER, 1, "request 4711"),),
    ),
    p.Pointer("erase", NOON + timedelta(minutes=3), "team-a~gone"),
)

#: A job that grows, the row of its second stretch, and the blobs of both and of an end.
GROWING = (
    replace(
        SMALL,
        job="team-a~meters",
        plan=p.PlanBlob("team-a~meters/" + SHA, "0x8DC", "plans"),
        items=12,
        chunks=3,
        dispatch_cursor=2,
        growing=True,
        stretches=2,
        chain=SHA,
        declared_items=40,
    ),
    p.StretchRow(
        job="team-a~meters",
        chunk=1,
        number=1,
        chunks=2,
        items=9,
        before=3,
        id_base=70,
        plan=p.PlanBlob("team-a~meters/" + SHA, "0x8DD", "plans"),
    ),
    (
        p.StretchFields(blob="meters/" + SHA, codec="zstd", frames=(p.Frame(0, 20, 3, SHA),), text=SHA),
        p.StretchFields(previous=SHA, blob="meters/" + SHA, codec="plain", frames=(p.Frame(0, 90, 9, SHA),), text=SHA),
        p.StretchFields(previous=SHA, end=p.DeclaredFields(40, {"amount": "812.50"})),
    ),
)
#: A job whose file is cut by ranges, the row of its second range with lines, and the blobs of that and of a blank one.
RANGED = (
    replace(
        GROWING[0],
        job="team-a~usage",
        file="uploads/usage.ndjson",
        stretches=3,
        ranges=p.Ranges("0x8DE", 1_700_000_000, 64 * 1024 * 1024, "d41d8cd98f00b204e9800998ecf8427e"),
    ),
    replace(GROWING[1], job="team-a~usage"),
    (p.CutRange(sha256=SHA, frames=(p.Frame(0, 90, 9, SHA),)), p.CutRange()),
)
STRETCHED_SUBMISSION = p.SubmissionFields(job="meters", gate="nightly", payload=p.PayloadFields(stretches=True))


#: As `sluice now` and the first page of the console read them: the grave one first.
NEEDS = [
    p.Need(p.NeedKind.PAUSED, "team-a~large", "after chunk 0: it is too large", LATER, NOON),
    p.Need(p.NeedKind.LATE, "nightly", "little time is left before its deadline", LATER, is_grave=False),
]

POINT = p.Point(
    second=0.25,
    promise=180,
    seconds=60.0,
    arrived=12,
    drained=9,
    depth=3,
    tasks=4,
    oldest_age=2.5,
    latency=0.1234,
    binding="rule",
    processes=2,
    transactions=900,
    failed=1,
    release="0.5.0",
)
ACT = p.Act(LATER, "ann", "gate open", "nightly", "opened: epoch 3")

SOUNDED = (
    p.Job(
        job="team-a~large",
        content_hash=SHA,
        workload="sales",
        accepted_at=LATER,
        listed_at=LATER,
        state=p.JobState.PAUSED,
        items=40,
        chunks=2,
        done=1,
        sounded=2**26,
        problem="after chunk 0: it is too large",
        story=(p.Told(p.JobState.PAUSED, LATER, 1, "after chunk 0: it is too large"),),
        needs="x-paused",
    ),
    [
        p.ChunkRow(
            job="team-a~large",
            chunk=0,
            state=p.ChunkState.DONE,
            revision=1,
            settled_at=LATER,
            blob="team-a~large/1/0",
            hash=SHA,
            length=100,
            partial=640,
        )
    ],
)

WAITING = (
    p.Job(
        job="team-a~invoice",
        content_hash=SHA,
        workload="sales",
        accepted_at=LATER,
        listed_at=LATER,
        state=p.JobState.HELD,
        waits=("team-a~rate-1", "team-a~rate-2", "team-a~other"),
        waits_at=1,
        after_parked=True,
        from_jobs=p.Sources(2, MappingProxyType({"quantity": "amount"}), "lines"),
        used=MappingProxyType({"team-a~rate-1": 2}),
        waiters=("team-a~report",),
        night="n-1124",
        story=(p.Told(p.JobState.HELD, LATER, 1, "waits for team-a~rate-1, team-a~rate-2, team-a~other"),),
    ),
    p.Job(
        job="team-a~report",
        content_hash=SHA,
        workload="sales",
        accepted_at=LATER,
        listed_at=LATER,
        state=p.JobState.HELD,
        items=3,
        chunks=1,
        waits=("team-a~invoice",),
        ready=p.PlanText('{"job":"team-a~report"}'),
        story=(p.Told(p.JobState.HELD, LATER, 1, "waits for team-a~invoice"),),
    ),
    p.Pointer("wait", NOON + timedelta(minutes=1), "team-a~invoice", note="2"),
)

#: A job that was not accepted yet, and those that wait for it.
AWAITED = ("team-a~rate-9", "team-a~invoice", "team-a~report")

#: A job that runs again: its row, the row of a chunk of the new run, the finish plan, and totals of both runs.
RERUN = (
    replace(
        SOUNDED[0],
        state=p.JobState.RUNNING,
        revision=3,
        run_from=2,
        halts=1,
        done=1,
        sounded=None,
        problem=None,
        needs=None,
        story=(p.Told(p.JobState.COMPLETE, NOON, 1), p.Told(p.JobState.RUNNING, LATER, 3)),
    ),
    [replace(SOUNDED[1][0], revision=2, blob="team-a~large/2/0")],
    p.FinishPlan.make([(0, 1)], cuts=2, is_rerun=True),
    {"team-a~large": (1, "3.30"), "team-a~large!r2": (3, "6.60"), "team-a~large!r2-01": (3, "0.10")},
)

BOUNDED = (
    p.Job(
        job="team-a~wrong",
        content_hash=SHA,
        workload="sales",
        accepted_at=LATER,
        listed_at=LATER,
        state=p.JobState.PAUSED,
        by="sluice",
        most_rejected="2.5%",
        items=40,
        chunks=2,
        done=1,
        too_rejected=12,
        problem="12 of 20 are rejected",
        needs="x-paused",
        story=(p.Told(p.JobState.PAUSED, LATER, 1, "12 of 20 are rejected"),),
    ),
    [],
)

CHUNK = p.ChunkMessage(
    job="nightly",
    chunk=7,
    revision=2,
    workload="sales",
    codec="zstd",
    frames=[(0, 100, 2, SHA), (100, 50, 1, SHA)],
    first_id=2**40,
    blob=f"nightly/{SHA}",
    etag='"0x8DD"',
    is_kept=True,
    again=True,
    trace=TRACE,
)
REJECTION = b'{"number":8,"reason":"no_shop","found":"the shop is empty","line":"{}"}\n'
RAN = p.Ran(
    accepted=p.PortionMessage(items=2, sums={"amount": "3.30"}),
    rejected=p.PortionMessage(items=1, sums={"amount": "1.10"}),
    partial={"north": "3.30"},
    rejections=REJECTION,
)
FAILED = ZeroDivisionError()
SO_FAR = (
    p.Ran(
        accepted=p.PortionMessage(items=1, sums={"amount": "3.30"}),
        rejected=p.PortionMessage(items=1, sums={"amount": "1.10"}),
        partial=None,
        rejections=REJECTION,
        left=(p.Left(2**40 + 2, FAILED),),
        pieces=(p.PartialPiece(2**40, {"north": "3.30"}),),
    ),
    {2**40 + 2: p.Waits(3, 1_795_000_000)},
    1_794_000_000,
    1500,
)
#: The same, and the lines of those that passed, by the first of each row of neighbours.
SO_FAR_LINES = (SO_FAR, {2**40: b'{"number":1}\n', 2**40 + 3: b'{"number":4}\n'})

PUT_OFF = p.FailedAttempt(
    key="chunk-000000007-1",
    deliveries=150,
    kind="waits for bank: 429",
    place="",
    at=NOON,
    due=NOON + timedelta(seconds=90),
    put_off=3,
)

LINED_CHUNK = p.structs.replace(CHUNK, job="rated", lines=True, revision=1, v=3)
LINED_RAN = p.Ran(
    accepted=p.PortionMessage(items=2, sums={"amount": "3.30"}),
    rejected=p.PortionMessage(items=1, sums={"amount": "1.10"}),
    partial={"north": "3.30"},
    rejections=REJECTION,
)
LINED_JOB = p.Job(
    job="rated",
    content_hash=SHA,
    workload="sales",
    accepted_at=NOON,
    lines=True,
)
LINED = (
    LINED_JOB,
    p.ChunkRow(
        job="rated",
        chunk=7,
        state=p.ChunkState.DONE,
        revision=1,
        settled_at=LATER,
        totals=FULL.totals,
        blob="rated/1/7",
        hash=SHA,
        length=300,
        lines=60,
    ),
    (LINED_RAN, b'{"number":7}\n{"number":9}\n'),
    (
        p.FinishPlan.make([(0, 1)], cuts=1),
        p.SegmentResult(FULL.totals, [p.Raw(b'{"north":"6.60"}')], {"blob-read useful": 3}, lines=2),
    ),
)
#: A job of which transactions are set aside: its row, a row that was extended, the entry, and the result of that.
ASIDE_CHUNK = p.structs.replace(CHUNK, aside=True, v=3)
_ASIDE_PORTION = p.PortionMessage(items=1, sums={"amount": "2.20"})
ASIDE = (
    replace(SOUNDED[0], job="nightly", sounded=None, problem=None, story=(), aside=3, aside_forgiven=2),
    [
        p.ChunkRow(
            job="nightly",
            chunk=7,
            state=p.ChunkState.DONE,
            revision=2,
            settled_at=LATER,
            totals=p.Totals(
                accepted=p.Portion(2, {"amount": Decimal("3.30")}), parked=p.Portion(1, {"amount": Decimal("2.20")})
            ),
            blob=f"nightly/2/7+{SHA[:16]}",
            hash=SHA,
            length=300,
            extends=SHA,
        )
    ],
    replace(
        ENTRIES[0],
        key=p.transactions_key(7, 2),
        stage=p.TRANSACTIONS,
        found="ZeroDivisionError: division by zero; 1 of 4 transactions failed",
        items=1,
    ),
    replace(RAN, failed=_ASIDE_PORTION),
    p.ParkedTransaction(
        number=2**40 + 3,
        reason="failed:ZeroDivisionError",
        found="ZeroDivisionError: division by zero",
        line='{"shop":"odd","amount":"2.20"}',
        place="sales.py:12 map < run.py:87 _map_each",
        fingerprint="d4d8c9beb1a5",
    ),
)
#: Sent about such a job.
ASIDE_MESSAGES = {
    "chunk": ASIDE_CHUNK,
    "result": p.Result(
        job="nightly",
        chunk=7,
        revision=2,
        blob=f"nightly/2/7+{SHA[:16]}",
        hash=SHA,
        length=300,
        extends=SHA,
        parked=_ASIDE_PORTION,
        v=p.STREAMS_VERSION,
    ),
}
#: Sent about a job with lines.
LINED_MESSAGES = {
    "chunk": LINED_CHUNK,
    "chunk, with a part of its frames": PARTS_PLAN.message(1, 100, lines=True),
    "result": p.Result(
        job="rated", chunk=7, revision=1, blob="rated/1/7", hash=SHA, length=300, lines=60, v=p.STREAMS_VERSION
    ),
}

MARK = p.FirstChunkMark(gate="morning", epoch=3, opened_at=NOON, seen_by="push")

#: In a document of their own: a chunk that sounds, and its result.
SOUNDS = {
    "chunk that sounds": p.structs.replace(CHUNK, chunk=0, sound=40),
    "result that expects too much": p.Result(
        job="nightly", chunk=0, revision=2, blob="nightly/2/0", hash=SHA, length=100, partial=640, expected=2**33
    ),
}

MESSAGES = {
    "dispatch": p.DispatchMessage(job="nightly"),
    "chunk": CHUNK,
    "chunk, with a part of its frames": PARTS_PLAN.message(1, 100),
    "chunk, as little as can be": p.ChunkMessage(
        job="least", chunk=0, revision=0, workload="sales", codec="plain", frames=[], first_id=1, inline="e30K"
    ),
    "chunk, the first of a release": p.structs.replace(CHUNK, first=MARK),
    "result": p.Result(
        job="nightly",
        chunk=7,
        revision=2,
        blob="nightly/2/7",
        hash=SHA,
        accepted=p.PortionMessage(items=2, sums={"amount": "3.30"}),
        rejected=p.PortionMessage(items=1, sums={}),
        milliseconds=250,
        requests={"blob-read useful": 1},
        trace=TRACE,
    ),
    "result, parked": p.Result(
        job="nightly", chunk=7, revision=2, parked=p.PortionMessage(items=3, sums=None), reason="killed_its_worker"
    ),
    "result, with its content": p.Result(
        job="nightly", chunk=7, revision=2, content="KLUv/SQB", hash=SHA, length=6, accepted=p.PortionMessage(items=2)
    ),
    "results": p.Results(
        results=[p.Result(job="nightly", chunk=0, revision=1), p.Result(job="r~x", chunk=1, revision=1)]
    ),
    "finish": p.Finish(job="nightly", revision=2),
    "segment": p.Segment(job="nightly", revision=2, segment=7),
    "segment, again": p.Segment(job="nightly", revision=2, segment=7, again=True),
    "shard": p.Shard(job="nightly", revision=2, shard=7),
    "completed": p.Completed(
        job="nightly",
        revision=2,
        workload="billing",
        state="completed_with_parked",
        accepted=p.PortionMessage(items=9),
        rejected=p.PortionMessage(items=1),
        parked=p.PortionMessage(items=2),
    ),
}
PERMIT = p.Permit(slot=3, depth=120, tasks=40)
LEAST_PERMIT = p.Permit(slot=0)

SUBMISSIONS = {
    "items": p.SubmissionFields(items=(p.Raw(b'{"account":"a","quantity":"1"}'), p.Raw(b"[1]"))),
    "a framed blob, and every field": p.SubmissionFields(
        job="nightly",
        workload="sales",
        gate="morning",
        deadline="2026-11-21T09:00:00Z",
        trace=TRACE,
        declared=p.DeclaredFields(items=2, sums={"amount": "3.30"}),
        payload=p.PayloadFields(blob=f"nightly/{SHA}", codec="zstd", index=SHA),
    ),
    "a file": p.SubmissionFields(job="file", payload=p.PayloadFields(blob="drop/file.ndjson.gz", codec="gzip")),
    "inline": p.SubmissionFields(job="inline", payload=p.PayloadFields(inline="e30K", codec="plain")),
}
#: A bound of its rejected transactions, which 0.4.0 refuses as an unknown field.
BOUNDED_SUBMISSION = p.SubmissionFields(items=(p.Raw(b"[1]"),), most_rejected="2.5%")
#: One that waits for others, and one that is made from them: 0.4.0 refuses both for unknown fields.
WAITING_SUBMISSIONS = {
    "after": p.SubmissionFields(items=(p.Raw(b"[1]"),), after=("rate-1",), after_parked=True, night="n-1124"),
    "from jobs": p.SubmissionFields(
        job="invoice-1", payload=p.PayloadFields(jobs=("rate-1", "rate-2"), sums={"quantity": "amount"}, files="lines")
    ),
}
#: What is read of the payload of each.
CONTENTS = {
    "items": {"lines": (b'{"account":"a","quantity":"1"}', b"[1]")},
    "a framed blob, and every field": {"name": f"nightly/{SHA}", "index_sha256": SHA},
    "a file": {"name": "drop/file.ndjson.gz"},
    "inline": {"stored": b"{}\n"},
}


def sequence():
    """Return a sequence that spilled its first events, and those as they were before."""

    def signature(number):
        return p.Signature(f"host:{number % 2}", f"{number:016x}", NOON + timedelta(seconds=number, milliseconds=5))

    grown = p.create(1, signature(0))
    for number in range(1, p.KEPT):
        grown = p.reserve(grown, 100, signature(number))
    spilled = grown
    told = p.NodeReport(open=(range(1, 5), range(7, 9)), left=(range(5, 7),))
    later = p.reserve(grown, 1000, signature(64), told)
    later = p.close(later, [range(later.next - 400, later.next)], [range(9, 11)], signature(65))
    later = p.resume(later, 2**40, (later.spilled, later.next), signature(66))
    return replace(later, spilled=p.KEPT, events=later.events[p.KEPT :]), spilled


FEED_ROW = p.FeedRow(
    until=LATER,
    since=NOON,
    by="w1",
    waiting={"": 3, "team-a": 9600},
    limited={"team-a": 9560},
    jobs={"": 1, "team-a": 12},
    served={"team-a": 1066.25},
    window=72,
    depth=60,
    oldest=NOON,
    is_noted=True,
)
FAILING_WORKER = p.Worker(
    name="w3",
    at=NOON,
    started_at=NOON,
    in_flight=1,
    done=2,
    busy=0.5,
    resting={"team-a": p.Resting(2, LATER)},
    version="0.4.0",
)
READY = [
    p.ReadyJob(job="nightly", accepted_at=NOON, chunks=7, cursor=0, workload="billing", items=7_000),
    p.ReadyJob(
        job="team-a~flood", accepted_at=LATER, chunks=9_600, cursor=64, workload="billing", items=9_600_000,
        deadline=LATER, is_again=True,
    ),
]  # fmt: skip
