"""What the code stores of the fixed values: each shelf is written by its stores, and read by them again."""

# ruff: noqa: D102, RUF012 - `Shelf` says what the methods do; the values of a shelf are never changed
import base64
import hashlib
import itertools
import secrets
import uuid
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import patch

import zstandard

from tests.faults.memory.storage import CONNECTION_STRING, MemoryStorage
from tests.faults.plan import Plan
from tests.golden import parts as p, values as v


class Clock:
    """A clock that stands still."""

    def __init__(self, at=v.NOON):
        self.at = at

    def now(self):
        """Return the time that it shows."""
        return self.at

    def monotonic(self):
        """Return the same in seconds."""
        return self.at.timestamp()


class Shelf:
    """Tables and containers with what is stored there; `write` takes what `read` returns."""

    tables = containers = ()

    def write(self, connections, stored):
        """Store it."""

    def read(self, connections):
        """Return what is stored."""


def _unstamped(value):
    """Return a record without what each write makes anew."""
    if isinstance(value, p.TimetableRow):
        return p.structs.replace(value, nonce="")
    names = {"etag", "nonce"} & set(value.__dataclass_fields__)
    return replace(value, **dict.fromkeys(names, ""))


def _table(connections, name):
    return connections.tables.get_table_client(name)


def _container(connections, name):
    return connections.blobs.get_container_client(name)


class Jobs(Shelf):
    """A job row, its chunk rows, an event beside it, and the list of jobs."""

    tables, values = ("jobs", "jobindex"), v.JOBS

    def write(self, connections, stored):
        ledger = self._ledger(connections)
        for job, rows, messages in stored:
            inserted, _ = ledger.insert(job)
            if rows:
                assert ledger.commit(inserted, rows, messages)

    def read(self, connections):
        ledger = self._ledger(connections)
        assert [one.job for one in ledger.newest(9)] == [v.LEAST.job, v.FULL.job]
        return [self._read(ledger, name) for name in (v.FULL.job, v.LEAST.job)]

    def _read(self, ledger, name):
        rows = [_unstamped(row) for row in ledger.rows(name)]
        return _unstamped(ledger.read(name)), rows, ledger.unsent(name)

    def _ledger(self, connections):
        return p.TableLedger(_table(connections, "jobs"), _table(connections, "jobindex"), clock=Clock())


class SmallJobs(Shelf):
    """A job whose plan is in its row, which was written with its cursor before its chunk was put."""

    tables, values = ("jobs",), v.SMALL

    def write(self, connections, stored):
        self._ledger(connections).insert(stored)

    def read(self, connections):
        return _unstamped(self._ledger(connections).read(v.SMALL.job))

    def _ledger(self, connections):
        return p.TableLedger(_table(connections, "jobs"), _table(connections, "jobindex"), clock=Clock(v.LATER))


class Lines(Shelf):
    """A job with lines of its transactions: its row and a chunk's, the result behind which they are, and a merged segment."""

    tables, containers, values = ("jobs",), ("results",), v.LINED

    def write(self, connections, stored):
        job, row, (ran, lines), (plan, merged) = stored
        inserted, _ = self._ledger(connections).insert(job)
        self._ledger(connections).commit(inserted, [row])
        writer = p.StreamWriter()
        writer.add(lines, 2)
        streamed = replace(ran, streams={p.LINES: writer.close()})
        self._results(connections).put(p.pack_result(v.LINED_CHUNK, streamed, p.Limits()))
        self._blobs(connections).put_plan(plan)
        self._blobs(connections).put(0, merged.totals, merged.partials, merged.requests, lines=merged.lines)

    def read(self, connections):
        ledger = self._ledger(connections)
        found = self._results(connections).find(v.LINED_CHUNK)
        content = _container(connections, "results").download_blob(found.name).readall()
        text, rest = p.unpack_result(found.name, content)
        lines = p.split_streams(found.name, found.result.streams, rest)[p.LINES]
        _, rejections = p.read_result(text)
        result = found.result
        ran = p.Ran(result.accepted, result.rejected, p.read_partial(result, dict), b"".join(rejections))
        blobs = self._blobs(connections)
        (merged,) = blobs.read_cuts(blobs.find_plan(), [0])
        job, (row,) = ledger.read(v.LINED_JOB.job), ledger.rows(v.LINED_JOB.job)
        job = replace(_unstamped(job), listed_at=None, story=(), nonce="")
        row = replace(_unstamped(row), nonce="")
        return job, row, (ran, p.unpack(lines)), (blobs.find_plan(), merged)

    def _ledger(self, connections):
        return p.TableLedger(_table(connections, "jobs"), _table(connections, "jobindex"), clock=Clock(v.LATER))

    def _results(self, connections):
        return p.ResultStore(_container(connections, "results"))

    def _blobs(self, connections):
        return p.SegmentBlobs(_container(connections, "results"), v.LINED_JOB.job, 1)


class Homes(Shelf):
    """A home with all that one can have, a commit after it, and a memento that no row holds."""

    tables, containers = ("homes",), ("mementos",)
    values = (
        p.Commit(
            home="order-7",
            aggregate="order",
            expected=0,
            events=(
                p.Event("order_placed", {"seats": {"it's ü": 2}, "long": "ä" * 6_000}, v.NOON, "c1", 2, 3),
                p.Event("reply_skipped", {}, v.NOON, is_public=False),
            ),
            fields={"number": 2**40, "salt": "00ff"},
            process={"state": "awaiting", "commands": [None]},
            inbox={"pay:a/ü": "h1"},
            memento=p.Memento(2, 1, b"small"),
        ),
        p.Commit(home="order-7", aggregate="order", expected=2, events=(p.Event("n", {}, v.NOON),), published=2),
        p.Commit(
            home="seats-1",
            aggregate="seats",
            expected=0,
            events=(p.Event("n", {}, v.NOON),),
            memento=p.Memento(1, 1, "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(9)).encode()),
        ),
    )

    def write(self, connections, stored):
        for commit in stored:
            self._homes(connections).commit(commit)

    def read(self, connections):
        homes = self._homes(connections)
        found = homes.load("order-7")
        assert found.head == replace(
            found.head, version=3, published=2, aggregate="order", fields=self.values[0].fields
        )
        events = tuple(replace(one, version=0) for one in found.events)
        own = {"fields": found.head.fields, "process": found.process, "inbox": found.inbox}
        first = replace(self.values[0], events=events[:2], memento=homes.read_memento("order-7"), **own)
        second = replace(self.values[1], events=events[2:], published=found.head.published)
        return first, second, replace(self.values[2], memento=homes.read_memento("seats-1"))

    def _homes(self, connections):
        return p.TableHomes(_table(connections, "homes"), p.MementoStore(_container(connections, "mementos"), 100))


class Held(Shelf):
    """Rows of what waits behind a gate."""

    tables, values = ("held",), v.HELD

    def write(self, connections, stored):
        for entry in stored:
            p.HeldTable(_table(connections, "held")).insert(entry)

    def read(self, connections):
        return [_unstamped(one) for page in p.HeldTable(_table(connections, "held")).pages("morning") for one in page]


class Pointers(Shelf):
    """The index of unfinished work."""

    tables, values = ("pending",), v.POINTERS

    def write(self, connections, stored):
        for pointer in stored:
            p.PendingTable(_table(connections, "pending")).add(pointer)

    def read(self, connections):
        found = p.PendingTable(_table(connections, "pending")).due(v.NOON + timedelta(days=1))
        return sorted(map(_unstamped, found), key=lambda pointer: pointer.kind)


class Receipts(Shelf):
    """Who saw which epoch."""

    tables, values = ("receipts",), v.RECEIPTS

    def write(self, connections, stored):
        for receipt in stored:
            p.ReceiptTable(_table(connections, "receipts")).write(receipt)

    def read(self, connections):
        return p.ReceiptTable(_table(connections, "receipts")).of_epochs("morning", 0)


class FirstChunks(Shelf):
    """When the first chunk of an opening began, beside the receipts."""

    tables, values = ("receipts",), v.FIRST_CHUNKS

    def write(self, connections, stored):
        for found in stored:
            mark = p.FirstChunkMark(
                gate=found.gate, epoch=found.epoch, opened_at=found.opened_at, seen_by=found.how.value
            )
            with patch("shared.gate.receipts.this_node", return_value=found.node):
                p.FirstChunks(_table(connections, "receipts"), Clock(found.began_at)).note(mark)

    def read(self, connections):
        return p.FirstChunks(_table(connections, "receipts"), Clock()).history("morning")


class Parked(Shelf):
    """Entries with their bytes, and the notes of deliveries."""

    tables, containers = ("parked",), ("parked",)
    values = v.ENTRIES, {3: p.Mark.BEGUN, 4: p.Mark.ENDED}

    def write(self, connections, stored):
        entries, marks = stored
        for entry in entries:
            self._parked(connections).park(entry, v.ENTRY_BODY)
        for delivery, mark in marks.items():
            if mark is p.Mark.BEGUN:
                self._attempts(connections).note_begun(self._note(), delivery)
            else:
                self._attempts(connections).note_failure(self._note(), delivery, ValueError("quoted"))

    def read(self, connections):
        parked = self._parked(connections)
        entries = [parked.get(entry.job, entry.key) for entry in v.ENTRIES]
        assert [parked.body(entry) for entry in entries] == [v.ENTRY_BODY] * len(entries)
        return [_unstamped(entry) for entry in entries], self._attempts(connections).of(self._note())[0]

    def _note(self):
        return p.submission_note("submissions", v.ENTRY_BODY, "m2")

    def _parked(self, connections):
        index = p.CauseIndex(_table(connections, "decisions"), "of these entries")
        container = _container(connections, "parked")
        return p.ParkedTable(
            _table(connections, "parked"), container, index, p.Overflow(container, index, Clock(v.NOON))
        )

    def _attempts(self, connections):
        return p.Attempts(_table(connections, "parked"), Clock(v.NOON))


class PutOff(Shelf):
    """The note of a chunk that waits for a service."""

    tables, values = ("parked",), v.PUT_OFF

    def write(self, connections, stored):
        attempts = p.Attempts(_table(connections, "parked"), Clock(v.NOON))
        waits = p.errors.Later(90, stored.kind.removeprefix("waits for "))
        for count in (2, 150):
            attempts.note_failure(f"nightly|{stored.key}", count, waits, put_off=(stored.due, stored.put_off))

    def read(self, connections):
        attempts = p.Attempts(_table(connections, "parked"), Clock(v.NOON))
        (found,) = attempts.list_failures("nightly")
        assert attempts.of(f"nightly|{found.key}")[1] == found.put_off
        return found


class CauseSums(Shelf):
    """The index of causes: members, and the sums of a process."""

    tables = ("decisions",)
    values = v.ENTRIES

    def write(self, connections, stored):
        index = p.CauseIndex(_table(connections, "decisions"), "a0b1c2d3e4f5")
        index.record([], stored)
        index.note_checked(v.NOON)

    def read(self, connections):
        index = p.CauseIndex(_table(connections, "decisions"), "another")
        members = set(index.read_all().members)
        causes = index.read()
        assert (sum(one.open for one in causes.causes), causes.checked_at) == (len(members), v.NOON)
        return [entry for entry in v.ENTRIES if p.Member.of(entry) in members]


class Over(Shelf):
    """A file of messages above the bound at the door, and its row."""

    tables = ("decisions",)
    containers = ("parked",)
    values = [entry for entry in v.ENTRIES if entry.job == p.DOOR]

    def write(self, connections, stored):
        overflow = self._overflow(connections, "a0b1c2d3e4f5")
        for entry in stored:
            overflow.keep(entry, v.ENTRY_BODY)

    def read(self, connections):
        (file,) = p.CauseIndex(_table(connections, "decisions"), "another").list_files()
        read = self._overflow(connections, "another").read(file)
        assert [line.body for line in read.messages()] == [v.ENTRY_BODY]
        return [entry for entry in self.values if entry.key in {line.key for line in read.messages()}]

    def _overflow(self, connections, process):
        index = p.CauseIndex(_table(connections, "decisions"), process)
        return p.Overflow(_container(connections, "parked"), index, Clock(v.NOON))


class Fleet(Shelf):
    """The fleet's partition: decision, history, governors, rules, processes."""

    tables = ("decisions",)
    values = v.DECISION, v.GOVERNORS, v.RULES, v.WORKERS

    def write(self, connections, stored):
        decision, governors, rules, workers = stored
        fleet = p.FleetTable(_table(connections, "decisions"))
        in_force = p.RulesInForce(p.parse_rules(rules), rules, '"0x1"')
        assert fleet.commit(p.Fleet(), p.FleetChange(decision=v.FIRST_DECISION, in_force=in_force))
        assert fleet.commit(fleet.read(), p.FleetChange(decision=decision, governors=governors))
        for worker in workers:
            fleet.report(worker)

    def read(self, connections):
        fleet = p.FleetTable(_table(connections, "decisions"))
        found = fleet.read()
        assert fleet.history(9) == [v.DECISION, v.FIRST_DECISION]
        assert found.in_force.rules == p.parse_rules(v.RULES)
        return found.decision, dict(found.governors), found.in_force.text, list(found.workers)


class Feed(Shelf):
    """Beside the fleet's decision: the feeder's row, and a process with messages that failed."""

    tables, values = ("decisions",), (v.FEED_ROW, v.FAILING_WORKER)

    def write(self, connections, stored):
        row, worker = stored
        fleet = p.FleetTable(_table(connections, "decisions"))
        fleet.note_feed(row)
        fleet.report(worker)

    def read(self, connections):
        found = p.FleetTable(_table(connections, "decisions")).read()
        return found.feed, *found.workers


class Ready(Shelf):
    """Jobs that wait for their turn, in two rooms."""

    tables, values = ("pending",), v.READY

    def write(self, connections, stored):
        for job in stored:
            p.ReadyTable(_table(connections, "pending")).add(job)

    def read(self, connections):
        ready = p.ReadyTable(_table(connections, "pending"))
        assert ready.read_pointer() is not None
        return [_unstamped(job) for room in sorted(ready.rooms()) for job in ready.read(room)]


class Diary(Shelf):
    """What a process requested on a day."""

    tables = ("usage",)
    values = {("sluice", "table", "jobs", "QueryEntity", "useful"): 3, ("sluice", "bus", "results", "Send", "retry"): 1}

    def write(self, connections, stored):
        tally = p.RequestTally()
        diary = p.Diary(_table(connections, "usage"), tally, Clock(), "a0b1")
        for (*kind, cause), number in stored.items():
            tally.add(p.RequestKind(*kind), p.Cause(cause), number)
        diary.note()

    def read(self, connections):
        noted = p.read_day(_table(connections, "usage"), v.NOON.date())
        return {(*kind, cause.value): number for (kind, cause), number in noted.items()}


class Audit(Shelf):
    """Who did what."""

    tables, values = ("audit",), {"entries": "3"}

    def write(self, connections, stored):
        audit = p.AuditTable(_table(connections, "audit"), Clock(v.LATER))
        with audit.record(p.AuditedAct("ann", "parked replay", "failed:KeyError", "deployed", stored)) as command:
            command.result = "done: 3 of 3"

    def read(self, connections):
        (found,) = p.AuditTable(_table(connections, "audit"), Clock(v.LATER)).newest(f"{v.LATER:%Y-%m}", 10)
        act = found.act
        assert (act.who, act.what, act.target) == ("ann", "parked replay", "failed:KeyError")
        assert (act.why, act.result) == ("deployed", "done: 3 of 3")
        return act.details


class Replays(Shelf):
    """Replays: one in the middle of a wave, and one that no process has begun."""

    tables, values = ("replays",), v.REPLAYS

    def write(self, connections, stored):
        for replay in stored:
            p.ReplayTable(_table(connections, "replays")).insert(replay)

    def read(self, connections):
        found = p.ReplayTable(_table(connections, "replays")).newest()
        return [p.structs.replace(one, nonce="", etag="") for one in found]


class Picked(Replays):
    """A replay of single entries."""

    values = v.PICKED


class Totals(Shelf):
    """Rows by account, and the fence before them."""

    tables = ("totals",)
    values = {"alice": {"amount": "3.30", "count": 2**40, "is_new": True}, "Bob / 7 %": {"amount": "-0.01"}}

    def write(self, connections, stored):
        writer = p.TotalsWriter(p.TotalsTable(_table(connections, "totals")), "nightly", 2)
        for account, properties in stored.items():
            writer.write(p.Total(account, properties))
        writer.close()

    def read(self, connections):
        table = _table(connections, "totals")
        fence = p.TotalsTable(table).take("nightly", 2)
        assert (fence.revision, fence.written) == (2, len(self.values))
        return {
            account: self._properties(table.get_entity("nightly", p.account_key(account))) for account in self.values
        }

    def _properties(self, row):
        own = {"PartitionKey", "RowKey", "account", "revision"}
        return {name: getattr(value, "value", value) for name, value in row.items() if name not in own}


class Plans(Shelf):
    """Plans of jobs."""

    containers, values = ("plans",), [v.PLAN, v.PARTS_PLAN, v.INLINE_PLAN]

    def write(self, connections, stored):
        for plan in stored:
            self._store(connections).put(plan)

    def read(self, connections):
        names = sorted(_container(connections, "plans").list_blob_names())
        blobs = [p.PlanBlob(name, "", "plans") for name in names]
        return [self._store(connections).read(blob.name.rpartition("/")[0], blob) for blob in blobs]

    def _store(self, connections):
        return p.PlanStore(lambda name: _container(connections, name))


class Results(Shelf):
    """A chunk's result with its rejections."""

    containers, values = ("results",), v.RAN

    def write(self, connections, stored):
        self._store(connections).put(p.pack_result(v.CHUNK, stored, p.Limits()))

    def read(self, connections):
        found = self._store(connections).find(v.CHUNK).result
        content = _container(connections, "results").download_blob("nightly/2/7").readall()
        _, rejections = p.read_result(p.unpack_result("nightly/2/7", content)[0])
        return p.Ran(found.accepted, found.rejected, p.read_partial(found, dict), b"".join(rejections))

    def _store(self, connections):
        return p.ResultStore(_container(connections, "results"))


class SoFar(Shelf):
    """What a chunk has while one of its transactions waits for a service."""

    containers, values = ("results",), v.SO_FAR

    def write(self, connections, stored):
        p.SoFarStore(_container(connections, "results")).put(v.CHUNK, *stored, None)

    def read(self, connections):
        found = self._find(connections)
        left = tuple(p.Left(number, v.FAILED) for number in sorted(found.left))
        ran = p.Ran(found.accepted, found.rejected, None, found.rejections, left=left, pieces=found.pieces)
        return ran, found.left, found.since, found.milliseconds

    def _find(self, connections):
        return p.SoFarStore(_container(connections, "results")).find(v.CHUNK, SimpleNamespace(partial=dict))


class SoFarLines(SoFar):
    """The same of a chunk that makes lines: they are in rows, one for each row of neighbours that passed."""

    values = v.SO_FAR_LINES

    def write(self, connections, stored):
        (ran, *more), lines = stored
        super().write(
            connections, (replace(ran, rows={first: self._pack(text) for first, text in lines.items()}), *more)
        )

    def read(self, connections):
        rows = self._find(connections).rows
        return super().read(connections), {first: p.unpack(row.read()) for first, row in rows.items()}

    def _pack(self, text):
        writer = p.StreamWriter()
        writer.add(text, 1)
        return writer.close()


class Segments(Shelf):
    """The plan of a finish, and a merged segment."""

    containers, values = (
        ("results",),
        [
            p.FinishPlan.make([(0, 1)], cuts=1),
            p.SegmentResult(v.FULL.totals, [p.Raw(b'{"north":"6.60"}')], {"blob-read useful": 3}),
        ],
    )

    def write(self, connections, stored):
        plan, merged = stored
        blobs = self._store(connections)
        blobs.put_plan(plan)
        blobs.put(0, merged.totals, merged.partials, merged.requests)

    def read(self, connections):
        blobs = self._store(connections)
        return [blobs.find_plan(), *blobs.read_cuts(blobs.find_plan(), [0])]

    def _store(self, connections):
        return p.SegmentBlobs(_container(connections, "results"), "nightly", 2)


class Slices(Segments):
    """A merged segment in slices, and what a shard came to."""

    values = [
        p.FinishPlan.make([(0, 1)], cuts=2),
        p.SegmentResult(v.FULL.totals, [p.Raw(b'{"south":"0.40"}')], {"blob-read useful": 3}),
        p.ShardResult(totals=1, lines=2, requests={"table useful": 2}),
    ]

    def write(self, connections, stored):
        plan, merged, shard = stored
        blobs = self._store(connections)
        blobs.put_plan(plan)
        blobs.put(0, merged.totals, [p.Raw(b'{"north":"6.20"}'), *merged.partials], merged.requests)
        for number in range(plan.cuts):
            blobs.put_shard(number, shard.totals, shard.lines, shard.requests)

    def read(self, connections):
        blobs = self._store(connections)
        plan = blobs.find_plan()
        return [plan, *blobs.read_cuts(plan, [1]), blobs.read_shards(plan.cuts)[1]]


class Spans(Segments):
    """A merged segment in more cuts than there are shards, where their spans lie, and what a shard came to at the end of one."""

    values = [
        p.FinishPlan.make([(0, 1)], cuts=32),
        [p.Raw(b'{"%d":"6.60"}' % number) for number in (0, 16)],
        p.SpanResult(totals=2, lines=3, requests={"table useful": 2}, at=v.NOON),
    ]

    def write(self, connections, stored):
        plan, partials, done = stored
        blobs = self._store(connections)
        blobs.put_plan(plan)
        # The cuts of shard 0 come first, as the bits of their numbers say.
        blobs.put(0, v.FULL.totals, [*partials, *[p.Raw(b"{}")] * 30], {"blob-read useful": 3})
        blobs.put_places(plan, 4096)
        blobs.put_span(0, 0, done)

    def read(self, connections):
        blobs = self._store(connections)
        plan = blobs.find_plan()
        (span,) = blobs.find_places().spans_of(plan, 0)
        assert span.cuts == [0, 16]
        return [plan, [one for _, cut in blobs.read_span(span) for one in cut], blobs.find_span(0, 0)]


class Sounded(SmallJobs):
    """A job that its first chunk paused, and the row of that chunk with the size of its partial."""

    tables, values = ("jobs",), v.SOUNDED

    def write(self, connections, stored):
        job, rows = stored
        ledger = self._ledger(connections)
        inserted, _ = ledger.insert(job)
        assert ledger.commit(inserted, rows, ())

    def read(self, connections):
        ledger = self._ledger(connections)
        job = self.values[0].job
        return _unstamped(ledger.read(job)), [_unstamped(row) for row in ledger.rows(job)]


class UnderWay(SmallJobs):
    """A job of which there are news: its row, its line of its month, and the one among those under way."""

    tables, values = ("jobs", "jobindex"), v.UNDER_WAY

    def write(self, connections, stored):
        ledger = self._ledger(connections)
        inserted, _ = ledger.insert(replace(stored, listed_open=False))
        assert ledger.commit(replace(inserted, listed_at=None))

    def read(self, connections):
        ledger = self._ledger(connections)
        ((line,), is_whole), name = ledger.list.list_open(), self.values.job
        assert (line.job, line.state, is_whole) == (name, "running", True)
        return _unstamped(ledger.read(name))


class Halted(SmallJobs):
    """A job whose messages are taken out of the queues."""

    tables, values = ("jobs", "decisions", "pending"), v.HALTED

    def write(self, connections, stored):
        job, halts, pointer = stored
        self._ledger(connections).insert(job)
        for name, number in halts.items():
            p.FleetTable(_table(connections, "decisions")).halt(name, number)
        p.PendingTable(_table(connections, "pending")).add(pointer)

    def read(self, connections):
        halts = p.FleetTable(_table(connections, "decisions")).read().halts
        (pointer,) = p.PendingTable(_table(connections, "pending")).due(v.NOON + timedelta(days=1))
        return _unstamped(self._ledger(connections).read(v.HALTED[0].job)), halts, _unstamped(pointer)


class Erased(SmallJobs):
    """A job that was erased, one of which that is proven, and the pointer to the first."""

    tables, values = ("jobs", "pending"), v.ERASED

    def write(self, connections, stored):
        *jobs, pointer = stored
        for job in jobs:
            self._ledger(connections).insert(job)
        p.PendingTable(_table(connections, "pending")).add(pointer)

    def read(self, connections):
        (pointer,) = p.PendingTable(_table(connections, "pending")).due(v.NOON + timedelta(days=1))
        ledger = self._ledger(connections)
        return *(_unstamped(ledger.read(job.job)) for job in v.ERASED[:2]), _unstamped(pointer)


class Waiting(SmallJobs):
    """A job that is made from others, one that waits for it with its own payload, and the pointer to the first."""

    tables, values = ("jobs", "pending"), v.WAITING

    def write(self, connections, stored):
        *jobs, pointer = stored
        for job in jobs:
            self._ledger(connections).insert(job)
        p.PendingTable(_table(connections, "pending")).add(pointer)

    def read(self, connections):
        (pointer,) = p.PendingTable(_table(connections, "pending")).due(v.NOON + timedelta(days=1))
        jobs = (_unstamped(self._ledger(connections).read(one.job)) for one in v.WAITING[:2])
        return *jobs, _unstamped(pointer)


class Awaited(SmallJobs):
    """The names of those that wait for a job which was not accepted yet. By its row they are read."""

    values = v.AWAITED

    def write(self, connections, stored):
        job, *names = stored
        for name in names:
            self._ledger(connections).name_waiter(job, name)

    def read(self, connections):
        job = self.values[0]
        new = p.Job(job=job, content_hash=v.SHA, workload="sales", accepted_at=v.LATER)
        return job, *self._ledger(connections).insert(new)[0].waiters


class Reruns(Sounded):
    """A job that runs again: its row, a row of the new run, the plan of its finish, and the totals of both runs."""

    tables, containers, values = ("jobs", "totals"), ("results",), v.RERUN

    def write(self, connections, stored):
        job, rows, plan, totals = stored
        super().write(connections, (job, rows))
        self._blobs(connections).put_plan(plan)
        for partition, (revision, amount) in totals.items():
            writer = p.TotalsWriter(p.TotalsTable(_table(connections, "totals")), partition, revision)
            writer.write(p.Total("alice", {"amount": amount}))
            writer.close()

    def read(self, connections):
        table = p.TotalsTable(_table(connections, "totals"))
        totals = {
            partition: (revision, row["amount"])
            for partition, (revision, _) in self.values[3].items()
            for row in table.rows_of_partition(partition, revision)
        }
        return *super().read(connections), self._blobs(connections).find_plan(), totals

    def _blobs(self, connections):
        return p.SegmentBlobs(_container(connections, "results"), v.RERUN[0].job, 2)


class Growing(SmallJobs):
    """A job that grows by stretches: its row, that of a stretch, and the blobs that a publisher writes."""

    tables, containers, values = ("jobs",), ("payloads",), v.GROWING

    def write(self, connections, stored):
        job, row, blobs = stored
        inserted, _ = self._ledger(connections).insert(job)
        assert self._ledger(connections).commit(inserted, [row])
        for number, fields in enumerate(blobs):
            p.StretchStore(_container(connections, "payloads")).put("meters", number, fields.encode())

    def read(self, connections):
        ledger, name = self._ledger(connections), v.GROWING[0].job
        (row,) = ledger.stretches_of(name)
        found = [p.StretchStore(_container(connections, "payloads")).find("meters", number) for number in range(3)]
        blobs = tuple(p.json.decode(one, type=p.StretchFields) for one in found)
        return _unstamped(ledger.read(name)), _unstamped(row), blobs


class Ranged(SmallJobs):
    """A job whose file is cut by ranges: its row, that of a range, and the blobs that the app writes."""

    tables, containers, values = ("jobs",), ("plans",), v.RANGED

    def write(self, connections, stored):
        job, row, blobs = stored
        inserted, _ = self._ledger(connections).insert(job)
        assert self._ledger(connections).commit(inserted, [row])
        for number, cut in enumerate(blobs, 1):
            self._cuts(connections).put(job.job, number, cut.encode())

    def read(self, connections):
        ledger, name = self._ledger(connections), v.RANGED[0].job
        (row,) = ledger.stretches_of(name)
        found = [self._cuts(connections).find(name, number) for number in (1, 2)]
        blobs = tuple(p.json.decode(one, type=p.CutRange) for one in found)
        return _unstamped(ledger.read(name)), _unstamped(row), blobs

    def _cuts(self, connections):
        return p.StretchStore(_container(connections, "plans"), check=str)


class Nights(Shelf):
    """A job of a night beside its line in the list, and the row of the night."""

    tables, values = ("nights", "jobindex"), v.WAITING[0]

    def write(self, connections, stored):
        self._list(connections).begin(stored)

    def read(self, connections):
        (line,) = self._list(connections).read_night("team-a~n-1124")
        assert self._list(connections).list_nights(9) == ["team-a~n-1124"]
        assert (line.listed.job, tuple(line.waits), line.listed.state) == (self.values.job, self.values.waits, "held")
        return self.values

    def _list(self, connections):
        index = _table(connections, "jobindex")
        return p.TableLedger(index, index, clock=Clock(), nights=p.NightTable(_table(connections, "nights"))).list


class Bounded(Sounded):
    """A job that its rejected transactions paused."""

    values = v.BOUNDED


class Asides(Parked):
    """A job of which transactions are set aside: its row, a chunk's that was extended, the entry, and a result that extends."""

    tables, containers, values = ("jobs", "parked"), ("results", "parked"), v.ASIDE

    def write(self, connections, stored):
        job, rows, entry, ran, parked = stored
        ledger = self._ledger(connections)
        inserted, _ = ledger.insert(job)
        assert ledger.commit(inserted, rows, ())
        self._parked(connections).park(entry, v.ENTRY_BODY)
        writer = p.StreamWriter()
        writer.add(p.json.encode(parked) + b"\n", 1)
        streamed = replace(ran, streams={p.PARKED: writer.close()})
        self._results(connections).put(p.pack_result(v.CHUNK, streamed, p.Limits(), v.SHA))

    def read(self, connections):
        ledger, name = self._ledger(connections), v.ASIDE[0].job
        found = self._results(connections).find(v.CHUNK, v.SHA)
        content = _container(connections, "results").download_blob(found.name).readall()
        row = p.ChunkRow(
            job=name,
            chunk=7,
            state=p.ChunkState.DONE,
            revision=2,
            settled_at=v.LATER,
            blob=found.name,
            hash=found.hash,
            length=len(content),
        )
        opened = self._results(connections).open(row)
        result, (parked,) = opened.result, p.list_parked(opened)
        assert (result.extends, result.v) == (v.SHA, p.STREAMS_VERSION)
        partial = p.read_partial(result, dict)
        ran = p.Ran(result.accepted, result.rejected, partial, b"".join(opened.rejections), failed=result.parked)
        rows = [_unstamped(one) for one in ledger.rows(name)]
        entry = _unstamped(self._parked(connections).get(name, v.ASIDE[2].key))
        job = replace(_unstamped(ledger.read(name)), listed_at=v.LATER, story=())
        return job, rows, entry, ran, parked

    def _ledger(self, connections):
        return p.TableLedger(_table(connections, "jobs"), _table(connections, "jobindex"), clock=Clock(v.LATER))

    def _results(self, connections):
        return p.ResultStore(_container(connections, "results"))


class Needs(Shelf):
    """What needs a person."""

    tables, values = ("decisions",), v.NEEDS

    def write(self, connections, stored):
        watch = p.WatchTable(_table(connections, "decisions"))
        for need in stored:
            watch.begin(need)

    def read(self, connections):
        return list(p.WatchTable(_table(connections, "decisions")).read().needs)


class Hours(Shelf):
    """What a tick saw of the work, with the marks of an act and of needs, and the report that it was taken from."""

    tables = ("decisions",)
    values = (
        (v.LATER, v.POINT, v.ACT, v.NEEDS[:1]),
        p.Worker(name="w2", at=v.NOON, started_at=v.NOON, in_flight=1, done=9, busy=1.5, transactions=900, failed=1),
    )

    def write(self, connections, stored):
        (at, point, act, needs), worker = stored
        watch = p.WatchTable(_table(connections, "decisions"))
        watch.record(at, point, needs)
        watch.note_act(act)
        watch.begin(needs[0])
        watch.end(needs[0].kind, needs[0].about, at)
        p.FleetTable(_table(connections, "decisions")).report(worker)

    def read(self, connections):
        ((hour,), (worker,)) = (
            p.WatchTable(_table(connections, "decisions")).read_hours(v.LATER, v.LATER),
            p.FleetTable(_table(connections, "decisions")).read().workers,
        )
        (one,), (act,), (began, ended) = hour.points, hour.acts, hour.changes
        assert (began.begins, ended.begins, hour.opened.names[0][:2]) == (True, False, began.key)
        # A mark is of a tenth of a second.
        assert abs(one.at - v.LATER) + abs(act.at - v.LATER) < timedelta(seconds=0.2)
        return (v.LATER, one.point, act._replace(at=v.LATER), v.NEEDS[:1]), worker


class Spent(Shelf):
    """The cost of a day, as a tick read it, beside what the tick saw."""

    tables, values = ("decisions",), (v.LATER, v.POINT, {"useful": 0.004321, "sweep": 0.0012})

    def write(self, connections, stored):
        at, point, amounts = stored
        p.WatchTable(_table(connections, "decisions")).record(at, point, None, p.SpentUntil(at, amounts))

    def read(self, connections):
        (hour,) = p.WatchTable(_table(connections, "decisions")).read_hours(v.LATER, v.LATER)
        (spent,) = hour.spent
        assert (hour.unknown, abs(spent.at - v.LATER) < timedelta(seconds=0.2)) == (0, True)
        return v.LATER, hour.points[0].point, spent.amounts


class Outputs(Shelf):
    """Parts and the manifest beside them."""

    containers, values = (
        ("outputs",),
        {"output-000000.ndjson.zst": (b"packed", 9), "rejected-000000.ndjson.zst": (b"", 1)},
    )

    def write(self, connections, stored):
        outputs = p.Outputs(_container(connections, "outputs"), "nightly", 2)
        for name, (content, items) in stored.items():
            outputs.put_part(name.removesuffix(".ndjson.zst"), content, items)
        balance = p.Balance(p.JobState.COMPLETED_WITH_PARKED, (), ("tax",))
        outputs.put_manifest(p.manifest_of(v.FULL, balance, 2, ["nightly"], outputs.parts()))

    def read(self, connections):
        container = _container(connections, "outputs")
        parts = p.Outputs(container, "nightly", 2).parts()
        return {
            part.name: (container.download_blob(f"nightly/2/{part.name}", decompress=False).readall(), part.items)
            for part in parts
        }


class Gates(Shelf):
    """The blobs of gates."""

    containers, values = ("gates",), v.GATES

    def write(self, connections, stored):
        for name, state in stored.items():
            p.BlobStore(_container(connections, "gates"), name).try_write(p.encode_gate(state), None)

    def read(self, connections):
        store = _container(connections, "gates")
        return {name: p.decode_gate(p.BlobStore(store, name).read().value, name) for name in self.values}


class Timetables(Shelf):
    """The blob of all timetables, and the pointers by which a tick follows them."""

    tables, containers, values = ("pending",), ("settings",), v.TIMETABLES

    def write(self, connections, stored):
        rows, pointers = stored
        for gate, row in rows.items():
            self._timetables(connections).put(gate, row, lambda: None)
        for pointer in pointers:
            p.PendingTable(_table(connections, "pending")).add(pointer)

    def read(self, connections):
        rows = {gate: _unstamped(row) for gate, row in self._timetables(connections).read().items()}
        found = p.PendingTable(_table(connections, "pending")).due(v.NOON + timedelta(days=1))
        return rows, sorted((_unstamped(one) for one in found), key=lambda one: one.id)

    def _timetables(self, connections):
        return p.Timetables(p.BlobStore(_container(connections, "settings"), "timetables"))


class Rolls(Shelf):
    """The row of an order that a gate holds, the gate that draws it, and the roll of that opening."""

    tables, containers, values = ("held",), ("gates",), v.ROLL

    def write(self, connections, stored):
        entry, state, roll = stored
        p.HeldTable(_table(connections, "held")).insert(entry)
        gates = _container(connections, "gates")
        p.BlobStore(gates, "sale").try_write(p.encode_gate(state), None)
        p.BlobStore(gates, "_roll-sale-3").try_write(roll.content, None)

    def read(self, connections):
        ((entry,),) = p.HeldTable(_table(connections, "held")).pages("sale")
        gates = _container(connections, "gates")
        state = p.decode_gate(p.BlobStore(gates, "sale").read().value, "sale")
        return _unstamped(entry), state, p.read_roll(p.BlobStore(gates, "_roll-sale-3").read().value, "the roll")


class Sequences(Shelf):
    """The blob of a sequence, and a block of its log."""

    containers, values = ("ids",), v.sequence()

    def write(self, connections, stored):
        sequence, spilled = stored
        store = p.BlobStore(_container(connections, "ids"), "transactions")
        p.spill(store, spilled)
        store.try_write(sequence.encode(), None)

    def read(self, connections):
        store = p.BlobStore(_container(connections, "ids"), "transactions")
        events = tuple(p.read_log(store, p.KEPT))
        sequence = p.parse_sequence(store.read().value, store.name)
        return sequence, replace(sequence, next=events[-1].stop, spilled=0, events=events)


class Rules(Shelf):
    """The rules in force, and each version."""

    containers, values = ("settings",), v.RULES

    def write(self, connections, stored):
        p.RulesBlob(_container(connections, "settings")).put(stored)

    def read(self, connections):
        rules = p.RulesBlob(_container(connections, "settings"))
        assert rules.text(3) == rules.text()
        return rules.text()


SHELVES = {
    shelf.__name__.lower(): shelf()
    for shelf in (
        Jobs, SmallJobs, Lines, Homes, Held, Rolls, Pointers, Feed, Ready, Receipts, FirstChunks, Parked, PutOff, CauseSums, Over,
        Fleet, Diary, Audit, Replays, Picked, Totals,
        Plans, Results, SoFar, SoFarLines, Segments, Slices, Spans, Sounded, Needs, Hours, Spent, Asides, Bounded, UnderWay, Halted, Erased, Waiting, Awaited, Nights, Reruns, Growing, Ranged, Outputs, Gates, Timetables, Sequences, Rules,
    )
}  # fmt: skip
_ZSTD = b"\x28\xb5\x2f\xfd"


@contextmanager
def no_chance():
    """Have every nonce be the next number."""
    numbers = itertools.count(1)
    with (
        patch.object(secrets, "token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}"),
        patch.object(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers))),
    ):
        yield


def written(name, values):
    """Return what a shelf's stores make of the values, as storage has it."""
    storage = MemoryStorage()
    with no_chance(), connected(storage) as connections:
        SHELVES[name].write(connections, values)
    return dumped(storage, SHELVES[name])


def read_again(name, document):
    """Return what a shelf's stores read of a document."""
    storage = MemoryStorage()
    restore(storage, document)
    with no_chance(), connected(storage) as connections:
        return SHELVES[name].read(connections)


def connected(storage):
    """Return connections to a storage."""
    return p.Connections(CONNECTION_STRING, transport=lambda: storage.transport(Plan()))


def dumped(storage, shelf):
    """Return what lies in the shelf's tables and containers."""
    tables = {name: [_row(row) for _, row in sorted(storage.content("table")[name].items())] for name in shelf.tables}
    blobs = {
        name: {blob: _blob(found) for blob, found in sorted(storage.content("blob")[name].items())}
        for name in shelf.containers
    }
    return {"tables": tables, "blobs": blobs}


def restore(storage, document):
    """Put a document into a storage."""
    for table, rows in document["tables"].items():
        for number, row in enumerate(rows):
            stamp = {"odata.etag": f'W/"{number}"', "Timestamp": "2026-11-20T12:00:00Z"}
            storage.content("table")[table][row["PartitionKey"], row["RowKey"]] = row | stamp
    for container, blobs in document["blobs"].items():
        for name, found in blobs.items():
            storage.put_blob(container, name, _content(found["content"]), found["metadata"], found["type"])


def _row(row):
    return {name: value for name, value in sorted(row.items()) if name not in {"odata.etag", "Timestamp"}}


def _blob(found):
    content, metadata = found.content, dict(found.metadata)
    if content.startswith(_ZSTD):
        # The bytes, and so their hash, are the library's.
        metadata.pop("sha256", None)
        frame = zstandard.ZstdDecompressor().decompressobj()
        text = frame.decompress(content)
        # Frames behind the first one have their hash in it, so their bytes count.
        content = {"base64": base64.b64encode(content).decode()} if frame.unused_data else {"zstd": text.decode()}
    else:
        try:
            content = content.decode()
        except UnicodeDecodeError:
            # A line of JSON before several frames.
            content = {"base64": base64.b64encode(content).decode()}
    return {"content": content, "metadata": metadata, "type": found.type}


def _content(said):
    if isinstance(said, str):
        return said.encode()
    if "base64" in said:
        return base64.b64decode(said["base64"])
    return zstandard.ZstdCompressor().compress(said["zstd"].encode())
