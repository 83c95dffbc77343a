"""What travels and lies inside: results, work messages, permits, gates, rules and rows, as an insider may write them."""

import base64
import json
from datetime import UTC, datetime

import msgspec

from shared.azure import check_limits
from shared.concurrency import rules
from shared.concurrency.rules import MOST_TASKS
from shared.dequeue.permits import SlotPlan
from shared.errors import GateCorruptError, LedgerCorruptError, NewerVersionError, ResultRefusedError, RulesRefusedError
from shared.gate import state
from shared.ledger.entities import job_entity, job_of, row_entity, row_of_entity
from shared.ledger.settlement import settle
from shared.memory import Memory
from shared.messages import MOST_OF_A_FLEET, ChunkMessage, Delivery, decode_permit, encode
from shared.payload import Limits
from shared.payload.frames import Codec
from shared.payload.reading import WORK, PayloadReader
from shared.pipeline import settle as results_stage
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.process import _read as read_work
from shared.pipeline.results import read_partial, read_result, result_of
from shared.refusals import ResultReason
from shared.workloads.billing import Billing
from shared.workloads.registry import run_lines
from tests.fuzz.at_the_door import lines_of, rows_of, stored_frame
from tests.fuzz.grammar import encoded, mutated, spelt
from tests.fuzz.target import ACCEPTED, Target
from tests.ledger import builders
from tests.parked.stages import stages

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BILLING = Billing()
#: The largest number that a column of the ledger's rows takes as it is written here.
MOST_COLUMN = 2**63


def _result_case(rng):
    made = builders.result(rng.randrange(4)) if rng.random() < 0.7 else builders.parked(rng.randrange(4))
    text = spelt(mutated(json.loads(encode(made)), rng), rng)
    return (encoded(text, rng, 0.1),)


def _settle_result(body):
    """Take a result as `settle_results` does: it is credited, or parked under a key that a table takes."""
    message = results_stage.Received(body, "message-1")
    sorted_ = results_stage.sort([message])
    for bad in sorted_.unreadable:
        _check_claim(results_stage.claim_of(bad))
        return str(bad.reason)
    for one in sorted_.newer:
        _check_claim(results_stage.claim_of(results_stage.Unsettled(one.message, ResultReason.NEWER, one.found)))
        return str(ResultReason.NEWER)
    [[arrived]] = sorted_.groups
    job = builders.job(chunks=4)
    if arrived.result.job != job.job:
        _check_claim(
            results_stage.claim_of(results_stage.Unsettled(message, ResultReason.UNKNOWN_JOB, "", arrived.result))
        )
        return str(ResultReason.UNKNOWN_JOB)
    made = settle(job, {}, [arrived.result], NOW)
    for refused in made.refused:
        _check_claim(
            results_stage.claim_of(
                results_stage.Unsettled(message, ResultReason.REFUSED, refused.reason, refused.result)
            )
        )
        return str(ResultReason.REFUSED)
    assert made.job.done + made.job.parked_chunks == 1
    job_of(_stored(check_limits(job_entity(made.job))), "")
    for row in made.rows:
        row_of_entity(_stored(check_limits(row_entity(row))), "")
    return ACCEPTED


def _check_claim(claim):
    """Hold the claim of an entry against what a table takes: a number that fits its column, a key without what no key may have."""
    for name in ("chunk", "revision"):
        number = getattr(claim, name)
        assert number is None or -(2**31) <= number < 2**31, f"{name} is what no column takes: {number}"
    assert not set(claim.job + claim.key) & set("/\\#?\t\n\r"), f"no key can be {claim.job!r}, {claim.key!r}"
    assert len(claim.key) <= 512


def _stored(entity):
    """Return a row as a table gives it back; numbers that no column takes fail as they would there."""
    for name, value in entity.items():
        number = getattr(value, "value", value)
        assert not isinstance(number, int) or -MOST_COLUMN <= number < MOST_COLUMN, (
            f"{name} is what no column takes: {number}"
        )
    return {name: getattr(value, "value", value) for name, value in entity.items()}


def _work_case(rng):
    lines = lines_of(rng, 3)
    codec = rng.choice(list(Codec))
    stored = stored_frame(rng, lines, codec)
    fields = {"kind": "chunk", "job": "job-1", "chunk": rng.randrange(9), "revision": 1, "workload": "billing"}
    fields |= {"codec": codec.value, "frames": rows_of([(stored, len(lines))]), "first_id": rng.randrange(10**6)}
    fields["inline"] = base64.b64encode(stored).decode()
    if rng.random() < 0.3:
        fields |= {"part": [rng.randrange(4), rng.randrange(5)], "v": rng.choice([2, 2, 2, 1])}
    if rng.random() < 0.2:
        fields = {"kind": "finish", "job": "job-1", "revision": 1}
        fields |= {"kind": "segment", "segment": rng.randrange(9)} if rng.random() < 0.5 else {}
        fields = (
            {"kind": "shard", "job": "job-1", "revision": 1, "shard": rng.randrange(20)}
            if rng.random() < 0.3
            else fields
        )
    return (encoded(spelt(mutated({"sluice": fields}, rng), rng), rng, 0.2),)


def _do_work(body):
    """Read a work message as `process_chunk` does and run what it holds; it can be parked whatever it is."""
    for queue in ("work-00", "results"):
        delivery = Delivery(queue=queue, message_id="message-1", body=body, count=1)
        _check_claim(stages().identify(delivery)[1])
    work = read_work(Delivery(queue="work-00", message_id="message-1", body=body, count=1))
    if isinstance(work, ChunkMessage):
        assert 0 <= work.chunk < 2**31
        if work.inline is not None:
            with PayloadReader(None, Memory(WORK))(work) as parts:
                texts = list(parts)
                assert all(run_lines(BILLING, lines, work.first_id).accepted.items <= len(lines) for lines in texts)
                assert sum(map(len, texts)) == work.items
    return ACCEPTED


def _permit_case(rng):
    fields = {"kind": "work", "slot": rng.randrange(9), "depth": rng.randrange(999), "tasks": rng.randrange(99), "v": 1}
    return (encoded(spelt(mutated({"sluice": fields}, rng), rng), rng, 0.1),)


def _read_permit(body):
    permit = decode_permit(body)
    if permit is None:
        return "refused"
    fleet = SlotPlan(rule=lambda depth: depth, cap=lambda: 100, tasks=4)
    assert 0 <= fleet.allowance(permit.slot) <= 4
    assert 0 <= permit.slot <= MOST_OF_A_FLEET
    return ACCEPTED


def _gate_case(rng):
    moment = "2026-11-21T06:00:00Z"
    change = {"what": "open", "epoch": 1, "by": "ann", "why": "", "at": moment, "nonce": "a1"}
    fields = {
        "v": 1,
        "epoch": rng.randrange(9),
        "state": rng.choice(["open", "closed"]),
        "opened_by": "ann",
        "why": "x",
    }
    fields |= {"at": moment, "once": False, "scheduled": None, "nonce": "b2", "changes": [change] * rng.randrange(3)}
    if rng.random() < 0.3:
        fields["scheduled"] = {"at": moment, "once": True, "by": "bob", "why": ""}
    return (encoded(spelt(mutated(fields, rng), rng), rng, 0.1),)


def _read_gate(content):
    found = state.decode(content, "nightly")
    # A row of what is held behind it says its epoch.
    assert 0 <= found.epoch < 2**31
    # What was read can be written again, or the next opening would fail.
    assert state.decode(state.encode(found), "nightly") == found
    return ACCEPTED


_RULES = """version: 7
most: 100
least: 2
rules:
  - name: night
    when: {hour: {at_least: 22, below: 6}, depth: {at_least: 1000}}
    empty_within: 30m
    until_known: 50
  - name: busy
    when: {oldest_age: {at_least: 90s}}
    messages_each: 25
  - name: otherwise
    tasks: 10
"""
_WORDS = (
    "a",
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "&a",
    "*a",
    "!!int",
    "!!python/object:os.system",
    "<<: *a",
    "|",
    ">",
    "#",
    "\t",
)
_VALUES = (
    "0",
    "-1",
    "1e9",
    "0x10",
    "1_000",
    "٣",
    "9" * 400,
    "nan",
    "inf",
    "1e309",
    "~",
    "yes",
    "1h",
    "9h",
    "''",
    "é" * 9,
)


def _rules_case(rng):
    text = _RULES
    if rng.random() < 0.85:
        for _ in range(rng.randint(1, 3)):
            text = rng.choice(_EDITS)(text, rng)
    return (encoded(text, rng, 0.05),)


def _other_value(text, rng):
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice(_VALUES) + rng.choice(["", "\n", ",", "}"])
    return " ".join(words)


def _other_number(text, rng):
    places = [at for at, letter in enumerate(text) if letter.isdigit()]
    if not places:
        return text
    at = rng.choice(places)
    return text[:at] + str(rng.randrange(10)) + text[at + 1 :]


def _inserted(text, rng):
    at = rng.randint(0, len(text))
    return text[:at] + rng.choice(_WORDS) + text[at:]


def _other_lines(text, rng):
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines) or 1)
    return "".join(rng.choice([lines[:at] + lines[at + 1 :], [*lines, *lines[at:]], [*lines[:at], "  ", *lines[at:]]]))


_EDITS = (_other_number, _other_number, _other_number, _other_value, _inserted, _other_lines)


def _read_rules(content):
    text = content.decode(errors="replace")
    found = rules.parse(text)
    assert 0 <= found.least <= found.most <= MOST_TASKS
    assert rules.lint(text).problems == []
    return ACCEPTED


def _row_case(rng):
    job = builders.job(chunks=3, gate="nightly", held_epoch=2, deadline=NOW, problem="x", finished_at=NOW, warned=None)
    if rng.random() < 0.5:
        made = settle(job, {}, [builders.result(1)], NOW).rows[0]
        entity = row_entity(made)
    else:
        entity = job_entity(job)
    plain = {name: getattr(value, "value", value) for name, value in entity.items()}
    return (encoded(spelt(mutated(plain, rng), rng), rng, 0.0),)


def _read_row(text):
    try:
        entity = json.loads(text)
    except ValueError:
        return "no_row"
    if not isinstance(entity, dict) or not all(isinstance(entity.get(key), str) for key in ("PartitionKey", "RowKey")):
        return "no_row"
    read = job_of if entity["RowKey"] == "job" else row_of_entity
    read(entity, "")
    return ACCEPTED


def _stored_result_case(rng):
    lines = [line for line in lines_of(rng, 3) if line.isascii()]
    done = run_in_parts(BILLING, [lines], 1, Limits())
    chunk = ChunkMessage(job="job-1", chunk=0, revision=1, workload="billing", codec="plain", frames=[], first_id=1)
    return (encoded(spelt(mutated(json.loads(msgspec.json.encode(result_of(chunk, done))), rng), rng), rng, 0.1),)


def _read_stored(content):
    result, rejections = read_result(content)
    assert all(line.endswith(b"\n") for line in list(rejections)[:-1])
    BILLING.merge(BILLING.combine([]), read_partial(result, BILLING.partial))
    return ACCEPTED


INSIDE = (
    Target("results", _result_case, _settle_result, 100_000),
    Target("work messages", _work_case, _do_work, 60_000, (NewerVersionError,)),
    Target("permits", _permit_case, _read_permit, 50_000),
    Target("gate blobs", _gate_case, _read_gate, 50_000, (GateCorruptError, NewerVersionError)),
    Target("rules", _rules_case, _read_rules, 10_000, (RulesRefusedError,)),
    Target("ledger rows", _row_case, _read_row, 30_000, (LedgerCorruptError, NewerVersionError)),
    Target("stored results", _stored_result_case, _read_stored, 20_000, (ResultRefusedError, NewerVersionError)),
)
