"""What must hold when everything has come to rest, whatever happened on the way; each breach is one sentence."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from itertools import pairwise

import zstandard

from shared.app import Stores
from shared.ledger import Wanted
from shared.ledger.records import ChunkState, JobState, PlanText, Totals
from shared.parked.cause_index import CauseIndex, Member
from shared.parked.entry import EntryState
from shared.pipeline.outputs import FENCE_KEY, Outputs
from tests.faults.marks import places_of

#: The job that is erased, and what stands in each of its transactions.
MARKED, MARK = "job-a", b"m4rk3d"
#: A stream of no bytes is none.
_NOTHING = zstandard.compress(b"")


def breaches(world, scenario) -> Iterator[str]:
    """Yield everything that is wrong."""
    connections = world.observer()
    ledger = Stores(connections).ledger
    for name in world.published:
        yield from _job(ledger, name, scenario, world)
    rows = connections.tables.get_table_client("jobs").query_entities("RowKey eq 'job'")
    strangers = {row["PartitionKey"] for row in rows} - world.published.keys()
    yield from (f"counted twice: nobody published a job {name}" for name in sorted(strangers))
    yield from _ids(world, ledger)
    yield from parked(connections, scenario)
    yield from left_over(world)
    yield from unnamed(world, ledger)
    yield from (f"{name} is still halted" for name in Stores(connections).fleet.read().halts)
    yield from listed(world)
    yield from computed(world, scenario)
    yield from trace(world, scenario)


def breaches_of_rerun(world, scenario) -> Iterator[str]:
    """Yield everything that is wrong after a rerun: each row is of it, and the totals of the run before are as they were."""
    yield from breaches(world, scenario)
    stores = Stores(world.observer())
    for name in world.published:
        job = stores.ledger.read(name)
        if job is None or not job.run_from:
            yield f"{name} did not run again"
            continue
        if any(row.revision < job.run_from for row in stores.ledger.rows(name)):
            yield f"{name} ended with a row of a run before"
        former = Outputs(stores.container("outputs"), name, 1).find_manifest()
        if former is None or former.state != JobState.COMPLETE:
            continue
        manifests = stores.diff_reader.choose(job, 1, None)
        found = stores.diff_reader.begin(manifests)
        if list(stores.diff_reader.compare(manifests, found)) or found.differs or not found.totals.equal:
            yield f"the totals of revision 1 of {name} are not those of revision {job.revision}"


def breaches_of_stopped(world, scenario) -> Iterator[str]:
    """Yield everything that is wrong after a stop: the job is stopped, or it had ended before, and its last event says so."""
    connections = world.observer()
    ledger = Stores(connections).ledger
    for name in world.published:
        job = ledger.read(name)
        if job is None or job.state is not JobState.STOPPED:
            yield from breaches(world, scenario)
            return
        told = [json.loads(body)["sluice"] for body in world.bus.told("completed") if f'"{name}"' in body]
        counts = {one.get("accepted", {}).get("items", 0) for one in told}
        if {one["state"] for one in told} != {"stopped"} or counts != {job.totals.accepted.items}:
            yield f"the end of {name} was told as {told}"
        added = sum((row.totals for row in ledger.rows(name)), Totals())
        if added != job.totals or job.totals.items + job.not_run != job.items:
            yield f"the totals of {name} are not the sum of its rows"
        if ledger.unsent(name):
            yield f"an event of {name} was never sent"
    yield from (f"{name} is still halted" for name in Stores(connections).fleet.read().halts)
    yield from left_over(world)
    yield from listed(world)


def breaches_of_erased(world, scenario) -> Iterator[str]:
    """Yield everything that is wrong after an erasure: the job's row has the proof, and its mark is nowhere."""
    ledger = Stores(world.observer()).ledger
    job = ledger.read(MARKED)
    if job is None or job.state is not JobState.ERASED:
        yield from breaches(world, scenario)
        return
    if job.proof is None or (job.proof["found"], job.proof["looks"]) != (0, 2):
        yield f"that nothing of it is left was proven as {job.proof}"
    if (job.by, job.problem, job.content_hash, job.plan) != ("ann", "request 4711", "", None):
        yield f"the row of an erased job has {job}"
    for service in () if world.storage.is_real else ("table", "blob", "queue"):
        yield from (f"found in {place}" for place in places_of(MARK, world.storage.content(service), service))
    if ledger.unsent(MARKED):
        yield "its event was never sent"
    yield from (f"{name} is still halted" for name in Stores(world.observer()).fleet.read().halts)
    yield from (f"stuck: {what}" for what in world.unfinished())
    yield from counted(
        Stores(world.observer()).parked_table,
        CauseIndex(world.observer().tables.get_table_client("decisions"), "of an invariant"),
    )


def listed(world) -> Iterator[str]:
    """Yield what the list says of jobs that their own rows do not say."""
    stores = Stores(world.observer())
    for one in (*stores.job_list.page(Wanted(), 100).jobs, *stores.job_list.list_open()[0]):
        job = stores.ledger.read(one.job)
        if job is None or job.state is not one.state:
            yield f"{one.job} is listed as {one.state}, and is {job and job.state}"


def _job(ledger, name, scenario, world):
    connections, published = world.observer(), world.published[name]
    job = ledger.read(name)
    if job is None:
        yield f"lost: there is no job {name}"
        return
    if job.state is not JobState.COMPLETE:
        yield f"stuck: {name} is {job.state}: {job.problem}"
        return
    low, high = scenario.revisions.get(name, (1, 1))
    if not low <= job.revision <= high:
        yield f"{name} ended at revision {job.revision}, expected {low} to {high}"
    rows = list(ledger.rows(name))
    yield from _rows(job, rows)
    yield from _counts(job, published)
    yield from _kept(connections, job, rows)
    yield from _outputs(connections, job, published)
    told = Counter(
        json.loads(body)["sluice"]["revision"] for body in world.bus.told("completed") if f'"{name}"' in body
    )
    if not told[job.revision]:
        yield f"nobody was told that revision {job.revision} of {name} is complete"
    if set(told) - set(range(1, job.revision + 1)):
        yield f"{name} was said to be complete at revisions {sorted(told)}"
    if ledger.unsent(name):
        yield f"an event of {name} was never sent"


def _rows(job, rows):
    added = sum((row.totals for row in rows), Totals())
    if [row.chunk for row in rows] != list(range(job.chunks)):
        yield f"{job.job} has rows {[row.chunk for row in rows]} of {job.chunks} chunks"
    if added != job.totals:
        yield f"the totals of {job.job} are not the sum of its rows"
    if any(row.state is not ChunkState.DONE for row in rows):
        yield f"{job.job} has a chunk that is not done"


def _counts(job, published):
    good = [sale for sale in published if sale["shop"]]
    bad = [sale for sale in published if not sale["shop"]]
    found = job.totals.accepted.items, job.totals.rejected.items, job.totals.parked.items
    if found != (len(good), len(bad), 0):
        yield f"counted wrong: {job.job} has {found}, expected {(len(good), len(bad), 0)}"
    sums = job.totals.accepted.sums.get("amount", Decimal())
    if sums != _sum(good):
        yield f"counted wrong: {job.job} has {sums}, expected {_sum(good)}"


def _kept(connections, job, rows):
    blobs = connections.blobs.get_container_client("results")
    for row in rows:
        if not row.blob or _hash(blobs, row.blob, partial(_result, row)) != row.hash:
            yield f"the result of chunk {row.chunk} of {job.job} is not there"
    plans = connections.blobs.get_container_client("plans")
    if isinstance(job.plan, PlanText):
        if json.loads(job.plan.text)["job"] != job.job:
            yield f"the plan of {job.job} is of another job"
    elif job.plan is None or _hash(plans, job.plan.name) != job.plan.name.rpartition("/")[2]:
        yield f"the plan of {job.job} is not there"


def _outputs(connections, job, published):
    container, folder = connections.blobs.get_container_client("outputs"), f"{job.job}/{job.revision}/"
    names = set(container.list_blob_names(name_starts_with=folder))
    if f"{folder}manifest.json" not in names:
        yield f"{job.job} has no manifest of revision {job.revision}"
        return
    manifest = json.loads(container.download_blob(f"{folder}manifest.json").readall())
    lines = [
        json.loads(line)
        for part in manifest["parts"]
        if part["name"].startswith("output")
        for line in _unpacked(container.download_blob(folder + part["name"], decompress=False).readall()).splitlines()
    ]
    numbers = [first + n for first, count in _ranges(Stores(connections).ledger, job) for n in range(count)]
    wanted = {number: sale for number, sale in zip(numbers, published, strict=True) if sale["shop"]}
    if len({line["id"] for line in lines}) != len(lines):
        yield f"an id is twice in the output of {job.job}"
    if {line["id"]: {"shop": line["shop"], "amount": line["amount"]} for line in lines} != wanted:
        yield f"the output of {job.job} is not what was published"
    yield from _lines(container, folder, job, manifest["parts"], wanted)
    yield from _totals(connections, job, wanted, manifest["totals_partitions"])


def _lines(container, folder, job, parts, wanted):
    """Yield what is wrong with the lines of transactions: a job without them has no part of them."""
    names = [part["name"] for part in parts if part["name"].startswith("lines")]
    frames = [container.download_blob(folder + name, decompress=False).readall() for name in names]
    whole = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(b"".join(frames) or _NOTHING)
    found = [(line["number"], line["shop"]) for line in map(json.loads, whole.splitlines())]
    # What passed later has its line at the end of its chunk's.
    found = sorted(found) if job.revision > 1 else found
    if found != [(number, sale["shop"]) for number, sale in wanted.items() if job.lines]:
        yield f"the lines of {job.job} are not those of what was published"


def _totals(connections, job, wanted, partitions):
    query = connections.tables.get_table_client("totals").query_entities(
        "PartitionKey ge @first and PartitionKey lt @last", parameters={"first": job.job, "last": f'{job.job}"'}
    )
    rows = list(query)
    fences = {row["PartitionKey"]: row["revision"] for row in rows if row["RowKey"] == FENCE_KEY}
    current = [row for row in rows if row["RowKey"] != FENCE_KEY and row["revision"] == job.revision]
    by_shop = {
        shop: _sum([s for s in wanted.values() if s["shop"] == shop]) for shop in {s["shop"] for s in wanted.values()}
    }
    found = {row["account"]: Decimal(row["amount"]) for row in current}
    if len(found) < len(current) or any(row["PartitionKey"] not in partitions for row in current):
        yield f"a total of {job.job} is there twice, or in a partition that its manifest does not name"
    if found != by_shop:
        yield f"the totals by shop of {job.job} are {found}, expected {by_shop}"
    if any(fences.get(partition) != job.revision for partition in partitions):
        yield f"a fence of {job.job} is not at its revision: {fences}"


def _ranges(ledger, job):
    """Return the first id and the number of transactions of each stretch. A job that came whole has one."""
    rows = ledger.stretches_of(job.job) if job.stretches > 1 else []
    first = rows[0].before if rows else job.items
    return [(job.id_base, first), *((row.id_base, row.items) for row in rows)]


def _ids(world, ledger):
    taken = sorted(
        (first, first + count, name)
        for name in world.published
        if (job := ledger.read(name)) is not None and job.id_base is not None
        for first, count in _ranges(ledger, job)
    )
    for (_, end, one), (begin, _, other) in pairwise(taken):
        if begin < end:
            yield f"{one} and {other} have ids in common"
    following = world.next_id()
    if taken and following < max(end for _, end, _ in taken):
        yield "the sequence would give ids again that jobs have"


def parked(connections, scenario):
    """Yield what is parked and should not be, and what should be and is not."""
    table, wanted = Stores(connections).parked_table, Counter(scenario.parked)
    for entry in table.entries(closed=True):
        if hashlib.sha256(table.body(entry)).hexdigest() != entry.sha256:
            yield f"the bytes of parked {entry.key} are not those that were parked"
        if entry.state is EntryState.DONE or entry.note.startswith("its job ran again"):
            continue
        if not wanted[entry.stage, entry.reason]:
            yield f"wrongly parked: {entry.job} {entry.key} ({entry.reason}, {entry.state})"
        wanted[entry.stage, entry.reason] -= 1
    yield from counted(table, CauseIndex(connections.tables.get_table_client("decisions"), "of an invariant"))
    for (stage, reason), count in wanted.items():
        if count > 0:
            yield f"lost: nothing is parked in {stage} for {reason}"


def counted(table, index):
    """Yield what the index of causes counts wrongly. A killed parker's message comes again, so no open entry is missed."""
    members = index.read_all().members
    shown = {one.fingerprint: one.open for one in index.read().causes}
    if shown != Counter(member.fingerprint for member in members):
        yield f"the sums of causes are {shown}, and their members {members}"
    missing = {Member.of(entry) for entry in table.entries()} - set(members)
    yield from (f"not counted: {member.row_key}" for member in missing)


def left_over(world):
    """Yield what nobody looks after any more, or somebody still would."""
    yield from (f"stuck: {what}" for what in world.unfinished())
    yield from (f"the bytes of {name} would stay for ever" for name in world.published.keys() - world.retained())
    yield from (f"{count} messages are left on {name}" for name, count in world.depths().items() if count)


def unnamed(world, ledger):
    """Yield if more blobs of results were written in vain than settlers lost races or met faults."""
    entries = world.journal.entries()
    met = sum(kind == "request" and "fault" in told[2] for kind, *told in entries)
    lost = sum(kind == "reply" and told[:2] == ["settle", "POST $batch"] and told[2] >= 400 for kind, *told in entries)
    container = world.observer().blobs.get_container_client("results")
    for name in world.published:
        rows = list(ledger.rows(name))
        named = {row.blob for row in rows}
        found = set(container.list_blob_names(name_starts_with=f"{name}/groups/")) - named
        # The blob of a result that was extended stays until the job is buried. There may have been several.
        extended = sum(2 for row in rows if row.extends)
        # Those of a run before are replaced.
        job = ledger.read(name)
        extended += job.chunks if job is not None and job.run_from else 0
        if len(found) > lost + met + extended:
            yield f"{len(found)} blobs of results of {name} are named by no row, after {lost} races and {met} faults"


def computed(world, scenario):
    """Yield if chunks were computed more often than a scenario allows, and each fault once."""
    entries = world.journal.entries()
    firsts = [told[0] for kind, *told in entries if kind == "run"]
    # The first of several chunks is combined in halves, of one transaction each: the second half is no run of its own.
    runs = sum((first - min(firsts)) % world.settings.chunk_items == 0 for first in firsts)
    met = sum(kind == "request" and "fault" in told[2] for kind, *told in entries)
    if scenario.runs is not None and runs > scenario.runs + met:
        yield f"{runs} runs of chunks, expected {scenario.runs} and {met} for the faults"


def trace(world, scenario):
    """Yield what was done wrong on the way."""
    is_open = not scenario.is_gated
    for kind, *entry in world.journal.entries():
        is_open = is_open or kind == "opening"
        if kind != "request":
            continue
        _, site, details = entry
        is_put = site.startswith("POST") and site.endswith("/messages")
        if is_put and "-poison" not in site and details["ttl"] != "-1":
            yield f"a message on {site} expires after {details['ttl']} s"
        # A file is cut while its job is held.
        if is_put and "work-00" in site and not is_open and not details.get("is_range"):
            yield "a chunk was dispatched before its gate was opened"


def _sum(found):
    return sum((Decimal(sale["amount"]) for sale in found), Decimal())


def _result(row, content):
    """Return the unpacked result of a row, from its slice of a blob or from a blob of its own."""
    return _unpacked(content if row.offset is None else content[row.offset : row.offset + row.length])


def _hash(container, name, unpack=bytes):
    blob = container.get_blob_client(name)
    return hashlib.sha256(unpack(blob.download_blob().readall())).hexdigest() if blob.exists() else None


def _unpacked(content):
    return zstandard.ZstdDecompressor().decompressobj().decompress(content)
