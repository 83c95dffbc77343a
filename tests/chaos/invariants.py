"""What must hold when everything has come to rest; each breach is one sentence."""

import itertools
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import zstandard

from shared.clock import SystemClock
from shared.ledger.records import FINISHED, JobState, Totals
from shared.pipeline.retention import RETENTION_POINTER
from shared.pipeline.sweep import JOB_POINTER
from shared.settings import Settings
from shared.wiring import gatehouse, line, parked_table, table_ledger, works
from shared.workloads.billing import Billing
from shared.workloads.registry import Workloads
from tests.chaos.stack import FRAME_ITEMS


class Later(SystemClock):
    """The time of day, some time ahead; for ticks that follow what is due later."""

    def __init__(self, ahead):
        self._ahead = ahead

    def now(self):
        """Return the later time."""
        return super().now() + self._ahead


def tick_later(stack, ahead):
    """Run the app's tick beside the app, as if it were later."""
    connections, clock = stack.connections, Later(ahead)
    work = works(connections, Workloads([Billing()]), clock=clock)
    settings = Settings.parse(stack.settings)
    try:
        line(connections, settings, gatehouse(connections, clock=clock), work, clock=clock).tick.run()
    finally:
        work.send.close()


def breaches(stack, expected, *, parked=0, others=()):
    """Yield what is wrong with the jobs, and with what is left over; `others` are jobs that end in other ways."""
    connections = stack.connections
    ledger = table_ledger(connections)
    jobs = {one.job: ledger.read(one.job) for one in expected}
    for one in expected:
        if jobs[one.job] is None:
            yield f"lost: {one.job}"
        else:
            yield from _counted(ledger, jobs[one.job], one)
            yield from _outputs(connections, jobs[one.job], one)
    yield from _ids([job for job in jobs.values() if job])
    entries = list(parked_table(connections).entries(closed=True))
    if len(entries) != parked:
        reasons = Counter((entry.stage.value, entry.reason) for entry in entries)
        yield f"{len(entries)} things are parked, expected {parked}: {dict(reasons)}"
    yield from _left_over(stack, set(others))


def _counted(ledger, job, one):
    totals, bad = job.totals, len(one.rejected())
    found = (job.state, totals.accepted.items, totals.rejected.items, totals.parked.items)
    if found != (JobState.COMPLETE, one.items - bad, bad, 0):
        yield f"counted wrong: {job.job} is {found}"
    accepted = totals.accepted.sums.get("quantity", Decimal())
    good = sum((quantity for _, quantity in one.by_account().values()), Decimal())
    if (
        accepted != good
        or totals.accepted.sums.get("quantity", Decimal()) + totals.rejected.sums.get("quantity", Decimal())
        != one.declared()
    ):
        yield f"counted wrong: {job.job} accepted {accepted} of {good}, declared were {one.declared()}"
    rows = list(ledger.rows(job.job))
    if [row.chunk for row in rows] != list(range(job.chunks)):
        yield f"{job.job} has {len(rows)} chunk rows of {job.chunks}"
    if sum((row.totals for row in rows), Totals()) != totals:
        yield f"the chunks of {job.job} do not add up to it"


def _outputs(connections, job, one):
    container, folder = connections.blobs.get_container_client("outputs"), f"{job.job}/{job.revision}/"
    if job.state not in FINISHED:
        return
    manifest = json.loads(container.download_blob(f"{folder}manifest.json").readall())
    lines = {"output": [], "rejects": []}
    for part in manifest["parts"]:
        content = container.download_blob(folder + part["name"]).readall()
        text = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        kind = "output" if part["name"].startswith("output") else "rejects"
        lines[kind] += [json.loads(line) for line in text.splitlines()]
    invoices = {line["account"]: (line["items"], Decimal(line["quantity"])) for line in lines["output"]}
    if len(invoices) != len(lines["output"]) or invoices != one.by_account():
        yield f"the invoices of {job.job} are not what was used"
    rejected = sorted(line["number"] for line in lines["rejects"])
    if rejected != sorted(job.id_base + number for number in one.rejected()):
        yield f"the rejects of {job.job} are not those that were bad"


def _ids(jobs):
    taken = sorted((job.id_base, job.id_base + job.items, job.job) for job in jobs if job.id_base is not None)
    for (_, end, before), (begin, _, after) in itertools.pairwise(taken):
        if begin < end:
            yield f"{before} and {after} have ids in common"


def _left_over(stack, others):
    # Pointers to finished jobs turn into those of their retention; a day later nothing else may be left but what waits
    # for a person.
    tick_later(stack, timedelta(days=1))
    for row in stack.connections.tables.get_table_client("pending").list_entities():
        _, kind, name = row["RowKey"].split("|", 2)
        if kind != RETENTION_POINTER and (kind != JOB_POINTER or name not in others):
            yield f"pending still points to {kind} {name}"


def computed_again(stack, expected):
    """Return the chunks that were computed after their result was stored, and how many were computed at all."""
    runs = {}
    for words in stack.notes():
        if words[0] == "run":
            runs.setdefault(int(words[1]), []).append(float(words[2]))
    again, results = [], stack.connections.blobs.get_container_client("results")
    ledger, computed = table_ledger(stack.connections), 0
    for one in expected:
        job = ledger.read(one.job)
        for row in ledger.rows(one.job):
            times = runs.get(job.id_base + row.chunk * FRAME_ITEMS, [])
            computed += bool(times)
            stored = results.get_blob_client(row.blob).get_blob_properties().creation_time
            # Storage says whole seconds.
            if any(datetime.fromtimestamp(time, UTC) > stored + timedelta(seconds=1) for time in times):
                again.append(f"{one.job}/{row.chunk}")
    return again, computed
