"""Judges a night from outside: what was sent and done, against outputs, rows, notes, the bank's log and the seats.

It knows docs/formats.md, docs/ledger.md and docs/workloads.md and imports nothing of the project but other checkers of
its tests, so that it cannot share a mistake with it. Every function yields sentences, each of them a breach.
"""

import json
from collections import Counter, defaultdict
from decimal import Decimal

from tests.faults.marks import has_mark
from tests.outside.checker import lines_of

#: Seconds until a chunk begins no more after a pause or a stop, and what two clocks and a command take beside.
AFTER, SLACK = 10.0, 2.0
#: Seconds within which an alarm is there that a person needs.
ALARM = 60.0
#: Alerts that say what befell the installation, and for how many seconds behind it they may come.
HARMED = {
    # A tick comes each minute, and what it did not reach is there at its next.
    **dict.fromkeys(
        ("sluice.tick.failed", "sluice.gate.unserved", "sluice.job.neglected", "sluice.results.unseen"), 150.0
    ),
    # Leases of a process that died end after minutes; then a reminder or a tick goes on.
    "sluice.homes.late": 900.0,
}


def read_outputs(outputs, job):
    """Return the newest manifest of a job and the lines of its parts by kind, or None without one."""
    names = [name for name in outputs.list_blob_names(name_starts_with=f"{job}/") if name.endswith("/manifest.json")]
    if not names:
        return None
    folder = max(names, key=lambda name: int(name.split("/")[1])).removesuffix("manifest.json")
    manifest = json.loads(outputs.download_blob(f"{folder}manifest.json").readall())
    parts = defaultdict(list)
    for part in manifest["parts"]:
        stored = outputs.download_blob(folder + part["name"], decompress=False).readall()
        parts[part["name"].split("-")[0]] += [json.loads(line, parse_float=str) for line in lines_of(stored)]
    return manifest, parts


def complete(job, sent, found, totals, *, has_lines=True):
    """Yield what is wrong with a job that must be complete: each transaction accepted once, or rejected once.

    Without lines, the sums of the accounts prove it.
    """
    if found is None:
        return (yield f"{job}: it has no outputs")
    manifest, parts = found
    accepted = {usage["id"]: usage for usage in sent if usage["do"] != "reject"}
    rejected = Counter(usage["id"] for usage in sent if usage["do"] == "reject")
    if manifest["state"] != "complete":
        yield f"{job}: its state is {manifest['state']}"
    counts = {name: manifest[name]["items"] for name in ("accepted", "rejected", "parked")}
    if counts != {"accepted": len(accepted), "rejected": sum(rejected.values()), "parked": 0}:
        yield f"{job}: its manifest counts {counts} of {len(sent)}"
    said = Counter(json.loads(line["line"])["id"] for line in parts["rejected"])
    if said != rejected:
        yield f"{job}: {sum(said.values())} are rejected, not the {sum(rejected.values())} that must be"
    if has_lines:
        yield from _once(job, accepted, Counter(line["id"] for line in parts["lines"]))
    rows = [row for row in totals if row["revision"] == manifest["revision"]]
    yield from _added_up(job, accepted, {"output": parts["output"], "totals": rows})


def _once(job, accepted, lines):
    twice, lost = [one for one, times in lines.items() if times > 1], accepted.keys() - lines.keys()
    strange = lines.keys() - accepted.keys()
    for what, some in (("no line", lost), ("several lines", twice), ("a line and must have none", strange)):
        if some:
            yield f"{job}: {len(some)} transactions have {what}: {sorted(some)[:3]}"


def _added_up(job, accepted, made):
    wanted = defaultdict(Decimal)
    for usage in accepted.values():
        wanted[usage["account"]] += Decimal(usage["units"])
    for name, rows in made.items():
        if sorted((row["account"], Decimal(row["units"])) for row in rows) != sorted(wanted.items()):
            yield f"{job}: its {name} of {len(rows)} rows do not add up to its {len(wanted)} accounts"


def stopped(job, sent, found, shown):
    """Yield what is wrong with a job that was stopped: nothing published, every transaction named."""
    if found is not None and not _is_old(found, shown):
        yield f"{job}: it was stopped, and has outputs of its revision {shown['revision']}"
    if shown["state"] != "stopped":
        yield f"{job}: its state is {shown['state']}, it was stopped"
    named = sum(shown.get(name) or 0 for name in ("accepted", "rejected", "parked", "not_run"))
    if named != len(sent):
        yield f"{job}: {named} of its {len(sent)} transactions are accounted for: {shown}"


def _is_old(found, shown):
    return found[0]["revision"] < shown["revision"]


def quiet(job, begun, between):
    """Yield each chunk that began while its job had to be quiet; `between` are pairs of times."""
    for since, until in between:
        late = [at for at in begun if since + AFTER + SLACK < at < until]
        if late:
            yield f"{job}: {len(late)} chunks began up to {max(late) - since:.1f} s after it was halted"


def early(job, begun, opened):
    """Yield each chunk that began before its gate was opened."""
    soon = [at for at in begun if at < opened]
    if soon:
        yield f"{job}: {len(soon)} chunks began up to {opened - min(soon):.3f} s before the gate was opened"


def limited(calls, rate, seconds=5.0):
    """Yield each stretch in which the bank was called more often than allowed."""
    times, first = sorted(at for at, *_ in calls), 0
    for last, at in enumerate(times):
        while at - times[first] > seconds - 1e-6:
            first += 1
        if last - first + 1 > rate * seconds:
            return (yield f"the bank was called {last - first + 1} times in {seconds:g} s, {rate} a second are allowed")


def charged(sent, calls):
    """Yield each transaction that the bank never took."""
    lost = {usage["id"] for usage in sent} - {one for _, one, status in calls if status == 200}
    if lost:
        yield f"{len(lost)} transactions were never charged: {sorted(lost)[:3]}"


def seats(orders, conference, paid):
    """Yield what is wrong with the seats of the one conference."""
    offer = conference["seats"]["whole"]
    taken = sum((order["reserved"] or {}).get("whole", 0) for order in orders if order["state"] in HOLDING)
    if taken + offer["remaining"] != offer["quota"] or offer["remaining"] < 0:
        yield f"{taken} seats are taken and {offer['remaining']} remain of {offer['quota']}"
    states = {order["order"]: order["state"] for order in orders}
    if unconfirmed := [order for order in paid if states.get(order) != "confirmed"]:
        yield f"{len(unconfirmed)} orders are paid and not confirmed: {unconfirmed[:3]}"
    if open_ := [order for order, state in states.items() if state in {"held", "placed"}]:
        yield f"{len(open_)} orders have no answer: {open_[:3]}"
    numbers = Counter(order["number"] for order in orders)
    if twice := [number for number, times in numbers.items() if times > 1]:
        yield f"orders share a number: {twice[:3]}"


def after(job, begun, ended):
    """Yield each chunk that began before the job that it waits for had ended."""
    if soon := [at for at in begun if at < ended]:
        yield f"{job}: {len(soon)} chunks began up to {ended - min(soon):.3f} s before the job that it waits for had ended"


def marked(job, mark, texts):
    """Yield each place in which the mark of an erased job stands; `texts` are (place, bytes), packed or not."""
    found = [place for place, text in texts if has_mark(text, mark)]
    if found:
        yield f"{job}: it is erased, and its mark stands in {len(found)} places: {found[:3]}"


def alarmed(paused, needs, blind, meant=()):
    """Yield each pause that no need named within a minute, and each need that nothing explains.

    `paused` and `needs` say when each was seen first: by job, and by kind and what it is about. A minute is counted
    without the stretches in which nothing could be seen. `meant` are needs that the night
    means to have, perhaps for so short a time that a pause was not seen.
    """
    for job, at in paused.items():
        found = needs.get(("x-paused", job))
        unseen = sum(until - since for since, until in blind if until > at and since < (found or until))
        if found is None or found - at - unseen > ALARM:
            yield f"{job}: it was paused, and {'no need says so' if found is None else f'named after {found - at:.0f} s'}"
    for kind, about in needs:
        is_seen = kind == "x-paused" and about in paused
        if kind.startswith(("x-", "z-")) and not is_seen and (kind, about) not in meant:
            yield f"{about}: a need {kind} that nothing explains"


def unexplained(alerts, expected, harmed):
    """Yield each alert that nothing explains; `alerts` are (when, event, fields), in the order of time.

    `expected` has the jobs that an event may name. An event of `HARMED` may come for a while after the harm.
    """
    for at, event, fields in alerts:
        job = str(fields.get("job", ""))
        if job in expected.get(event, ()):
            continue
        if not any(since - SLACK < at < since + HARMED.get(event, 0.0) for since in harmed):
            yield f"{event} that nothing explains: {fields}"


def shared_work(chunks, release):
    """Yield whether the last release did nothing while it ran beside; `chunks` counts what each version began."""
    if not chunks.get(release):
        yield f"no chunk was begun by {release}: {dict(chunks)}"


def returned(carriers, waiting, *, are_heard):
    """Yield what is wrong with the returns: each ends once, and the second carrier is asked where the first is silent."""
    if waiting:
        yield f"{len(waiting)} returns still wait: {waiting[:3]}"
    ended = carriers.ended()
    if are_heard and (silent := carriers.sent - ended.keys()):
        yield f"{len(silent)} returns have no end: {sorted(silent)[:3]}"
    if twice := {name: ends for name, ends in ended.items() if len(ends) > 1}:
        yield f"returns end more than once: {twice}"
    if changed := [key for key, kinds in carriers.heard.items() if len(kinds) > 1]:
        yield f"events of returns changed: {changed[:3]}"
    unasked = {name for name in carriers.lost & carriers.sent if not carriers.asked[name, 2]}
    if are_heard and unasked:
        yield f"no second carrier was asked for {sorted(unasked)[:3]}"
    if soon := {name for name, generation in carriers.asked if generation == 2 and not carriers.asked[name, 1]}:
        yield f"the second carrier was asked and the first was not: {sorted(soon)[:3]}"


HOLDING = ("reserved", "partially_reserved", "confirmed")


def left_over(depths, pointers):
    """Yield what lies around when all has ended; a pointer to what retention removes later is no fault."""
    for place, count in depths.items():
        if count:
            yield f"{place}: {count} are left"
    for kind, name in pointers:
        yield f"a pointer of kind {kind} is left for {name}"
