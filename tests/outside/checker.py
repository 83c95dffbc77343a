"""Adds up jobs of the workload `billing` from outside: what a publisher sent, against what lies in the outputs.

It knows docs/formats.md, docs/ledger.md and docs/workloads.md and imports nothing of the project, so that it cannot
share a mistake with it. `python -m tests.outside.checker JOB FILE` checks one job by the connection in SluiceStorage.
"""

import gzip
import hashlib
import itertools
import json
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path

import zstandard
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

#: Each plan: currency, smallest unit, and (up to, rate) of its tiers; None: without end.
PLANS = {
    "basic": ("EUR", "0.01", [("100", "0.05"), ("1000", "0.035"), (None, "0.02")]),
    "standard": ("EUR", "0.01", [("1000", "0.0275"), ("10000", "0.0180"), (None, "0.0095")]),
    "premium": ("EUR", "0.01", [(None, "0.00815")]),
    "nippon": ("JPY", "1", [("500", "7.25"), (None, "4.5")]),
    "gulf": ("KWD", "0.001", [("250", "0.0125"), ("2500", "0.0095"), (None, "0.0061")]),
}
AMOUNT = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,18})?")
DEEPEST, LONGEST_LINE, LONGEST_ACCOUNT, MOST, SHOWN = 32, 256 * 1024, 200, Decimal(10**9), 4096


@dataclass
class Expected:
    """What must come of a payload: invoices by account and currency are items, quantity and amount."""

    lines: list[bytes]
    invoices: dict[tuple[str, str], tuple[int, Decimal, Decimal]] = field(default_factory=dict)
    rejected: list[int] = field(default_factory=list)
    parked: set[int] = field(default_factory=set)
    sums: dict[str, Decimal | None] = field(default_factory=lambda: {"accepted": Decimal(), "rejected": Decimal()})


def lines_of(stored):
    """Return the transactions of a file, plain, gzip or zstd by its first bytes; blank lines are none."""
    if stored.startswith(b"\x1f\x8b"):
        stored = gzip.decompress(stored)
    elif stored.startswith(b"\x28\xb5\x2f\xfd"):
        stored = zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True).read()
    return [line for line in stored.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]


def read(line):
    """Return the object of a line, or None where it is not read strictly."""

    def once(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    def number(text):
        made = Decimal(text)
        if len(text) > 4300 or not made.is_finite() or not -324 <= made.adjusted() <= 308:
            raise ValueError("out of range")
        return made

    try:
        how = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), number)
        made = json.loads(line.decode(), object_pairs_hook=once, **how)
        json.dumps(made, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) and _depth(made) <= DEEPEST and len(line) <= LONGEST_LINE else None


def _depth(value):
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, dict | list) else 0


def amount_of(value):
    """Return a text or a number as an amount, or None where it is none."""
    text = format(value, "f") if isinstance(value, Decimal) else value
    return Decimal(text) if isinstance(text, str) and AMOUNT.fullmatch(text) else None


def price(plan, quantity):
    """Return what a quantity costs: tier by tier, rounded once."""
    _, unit, tiers = PLANS[plan]
    cost, below = Decimal(), Decimal()
    for up_to, rate in tiers:
        end = min(quantity, Decimal(up_to or "Infinity"))
        cost, below = cost + max(end - below, Decimal()) * Decimal(rate), end
    return cost.quantize(Decimal(unit))


def expect(lines, parked=()):
    """Return what must come of these transactions; those at the places `parked` were parked."""
    made = Expected(list(lines), parked=set(parked))
    with localcontext(prec=200, rounding=ROUND_HALF_EVEN):
        for place, line in enumerate(made.lines):
            if place in made.parked:
                continue
            usage = read(line)
            account, plan, said = map((usage or {}).get, ("account", "plan", "quantity"))
            quantity = Decimal() if usage is not None and said is None else amount_of(said)
            is_known = isinstance(account, str) and 0 < len(account) <= LONGEST_ACCOUNT and plan in [*PLANS]
            if is_known and quantity is not None and 0 < quantity <= MOST:
                key = account, PLANS[plan][0]
                items, used, owed = made.invoices.get(key, (0, Decimal(), Decimal()))
                made.invoices[key] = items + 1, used + quantity, owed + price(plan, quantity)
                made.sums["accepted"] += quantity
            else:
                made.rejected.append(place)
                known = made.sums["rejected"]
                made.sums["rejected"] = None if known is None or quantity is None else known + quantity
    return made


def breaches(job, expected, outputs, totals, first_id=None):
    """Yield what is wrong: `outputs` is the container, `totals` the rows of the job, `first_id` its first number."""
    names = [name for name in outputs.list_blob_names(name_starts_with=f"{job}/") if name.endswith("/manifest.json")]
    if not names:
        return (yield f"{job}: it has no outputs")
    folder = max(names, key=lambda name: int(name.split("/")[1])).removesuffix("manifest.json")
    manifest = json.loads(outputs.download_blob(f"{folder}manifest.json").readall())
    found = {"output": [], "rejected": []}
    for part in manifest["parts"]:
        stored = outputs.download_blob(folder + part["name"], decompress=False).readall()
        lines = [json.loads(line, parse_float=str) for line in lines_of(stored)]
        said = part["bytes"], part["sha256"], part["items"]
        if said != (len(stored), hashlib.sha256(stored).hexdigest(), len(lines)):
            yield f"{job}: part {part['name']} is not what the manifest says"
        found[part["name"].split("-")[0]] += lines
    yield from _counts(job, expected, manifest)
    yield from _owed(job, expected, found["output"], [row for row in totals if row["revision"] == manifest["revision"]])
    yield from _rejects(job, expected, found["rejected"], first_id)


def _counts(job, expected, manifest):
    wanted = {"rejected": len(expected.rejected), "parked": len(expected.parked)}
    wanted["accepted"] = len(expected.lines) - sum(wanted.values())
    said = {name: manifest[name]["items"] for name in wanted}
    if said != wanted or manifest["items"] != len(expected.lines):
        yield f"{job}: of {manifest['items']} transactions {said}, it must be {wanted} of {len(expected.lines)}"
    if manifest["state"] != ("completed_with_parked" if expected.parked else "complete"):
        yield f"{job}: its state is {manifest['state']}"
    for name, wants in expected.sums.items():
        says = Decimal(manifest[name]["sums"].get("quantity", "0"))
        if bool(manifest[name]["unknown"]) != (wants is None) or says != (says if wants is None else wants):
            yield f"{job}: the quantity {name} is {says}, it must be {wants}"


def _owed(job, expected, lines, rows):
    keys = [(line["account"], line["currency"]) for line in lines]
    values = [(line["items"], Decimal(line["quantity"]), Decimal(line["amount"])) for line in lines]
    said = dict(zip(keys, values, strict=True))
    wrong = [key for key in said | expected.invoices if said.get(key) != expected.invoices.get(key)]
    if wrong or len(said) != len(keys):
        yield f"{job}: {len(wrong)} invoices are wrong, {len(keys) - len(said)} are there twice: {sorted(wrong)[:3]}"
    owed = defaultdict(lambda: {"items": 0})
    for (account, currency), (items, _, amount) in expected.invoices.items():
        owed[account] |= {"items": owed[account]["items"] + items, f"amount_{currency}": amount}
    names = {"items", "amount_EUR", "amount_JPY", "amount_KWD"}
    said = {row["account"]: {name: Decimal(row[name]) for name in names & row.keys()} for row in rows}
    if said != owed:
        yield f"{job}: the totals of {sum(said.get(one) != owed.get(one) for one in said | owed)} accounts are wrong"


def _rejects(job, expected, lines, first_id):
    numbers = [line["number"] for line in lines]
    first = first_id if first_id is not None else min(numbers, default=0) - min(expected.rejected, default=0)
    if sorted(numbers) != [first + place for place in expected.rejected]:
        yield f"{job}: {len(numbers)} transactions are rejected, not the {len(expected.rejected)} that must be"
    elif any(one["line"] != expected.lines[one["number"] - first].decode(errors="replace")[:SHOWN] for one in lines):
        yield f"{job}: a rejected line is not the one that was sent"


def overlaps(ranges):
    """Yield each two jobs that have a number in common; `ranges` are (first id, items, job)."""
    for (first, items, one), (begin, _, other) in itertools.pairwise(sorted(ranges)):
        if begin < first + items:
            yield f"{one} and {other} have numbers in common from {begin} on"


def check(connection, job, lines, *, first_id=None, parked=()):
    """Return what is wrong with one job of an account; the totals of a large one are in shards, `JOB!00` and so on."""
    blobs, tables = (kind.from_connection_string(connection) for kind in (BlobServiceClient, TableServiceClient))
    wanted = f"PartitionKey eq '{job}' or (PartitionKey ge '{job}!' and PartitionKey lt '{job}\"')"
    with blobs, tables:
        rows = tables.get_table_client("totals").query_entities(wanted)
        rows = [{name: getattr(one, "value", one) for name, one in row.items()} for row in rows if "account" in row]
        return list(breaches(job, expect(lines, parked), blobs.get_container_client("outputs"), rows, first_id))


if __name__ == "__main__":
    found_wrong = check(os.environ["SluiceStorage"], sys.argv[1], lines_of(Path(sys.argv[2]).read_bytes()))  # noqa: SIM112
    sys.exit("\n".join(found_wrong) or 0)
