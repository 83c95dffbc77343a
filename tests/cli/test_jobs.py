"""`sluice jobs`, against a real ledger without the app."""

import itertools
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.errors import RefusedError
from shared.ledger import TableLedger
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Portion, Totals
from shared.messages import Delivery
from shared.operating.audit import acts_of
from shared.parked.entry import ACCEPT, chunk_key, job_note
from shared.parked.poison_policy import note_left
from shared.pending import PendingTable
from shared.pipeline.outputs import Outputs, PartWriter, TotalsWriter
from shared.workloads import Total
from tools.cli.main import app

_numbers = itertools.count(1)


class At(SystemClock):
    """A clock that stands at a time."""

    def __init__(self, moment):
        self.moment = moment

    def now(self):
        """Return the time."""
        return self.moment


@pytest.fixture
def job_in(stack_settings):
    """Write a job of its own into the ledger, in some state, and return its id."""
    with Connections.parse(stack_settings) as connections:
        ledger = Stores(connections).ledger

        def make(state, job=None, **fields):
            name = job or f"cli-job-{next(_numbers)}"
            known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": datetime.now(UTC)}
            plan = PlanBlob(f"{name}/plan", "e")
            ledger.insert(Job(job=name, state=state, items=10, chunks=2, plan=plan, id_base=100, **known | fields))
            return name

        yield make


def test_a_finished_job_shows_its_totals(sluice, job_in):
    """Counts, exact sums, ids and where the outputs are, for programs and for people."""
    totals = Totals(accepted=Portion(9, {"amount": Decimal("12.30")}), rejected=Portion(1))
    requests = {"table useful": 15, "queue useful": 4, "table conflict": 1}
    name = job_in(JobState.COMPLETE, done=2, totals=totals, finished_at=datetime.now(UTC), requests=requests)
    said = json.loads(sluice("jobs", "show", name, "--json").stdout)
    assert (said["state"], said["accepted"]["sums"], said["rejected"]["items"]) == ("complete", {"amount": "12.30"}, 1)
    assert said["outputs"] == f"outputs/{name}/1/"
    shown = sluice("jobs", "show", name).stdout
    assert "100 to 109" in shown
    assert "12.30" in shown
    assert "20 (1 conflict, 19 useful), 2.0000 a transaction" in shown
    assert said["requests"] == requests


def test_who_watches_a_job_sees_when_it_will_end(sluice, job_in):
    """Half of it in ten minutes makes ten more; what has ended says nothing of the kind."""
    began = datetime.now(UTC) - timedelta(minutes=10)
    half = job_in(JobState.RUNNING, done=1, dispatch_cursor=2, started_at=began)
    said = sluice("jobs", "watch", half, "--timeout", "0").stderr
    hour, minute = re.search(r"ends about (\d\d):(\d\d):\d\d UTC", said).groups()
    expected = began + timedelta(minutes=20)
    assert abs(int(hour) * 60 + int(minute) - expected.hour * 60 - expected.minute) in {0, 1, 1439}
    ended = job_in(JobState.COMPLETE, done=2, started_at=began, finished_at=datetime.now(UTC))
    assert "ends about" not in sluice("jobs", "watch", ended).stderr


def test_a_deadline_at_risk_is_seen_wherever_one_looks(sluice, job_in):
    """In the list, beside the job and while it is watched; a program has the word."""
    now = datetime.now(UTC)
    name = job_in(
        JobState.HELD, gate="nightly", accepted_at=now - timedelta(hours=9), deadline=now + timedelta(hours=1)
    )
    assert "waits too long" in sluice("jobs", "show", name).stdout
    listed = {job["job"]: job for job in json.loads(sluice("jobs", "list", "--limit", "1000", "--json").stdout)["jobs"]}
    assert (listed[name]["risk"], listed[name]["late"]) == ("waits_too_long", False)
    assert "waits too long" in sluice("jobs", "watch", name, "--timeout", "0").stderr


def test_the_beginning_of_an_id_is_enough(sluice, job_in):
    """The one that it fits is shown; where it fits several, they are named; where none, the status is 1."""
    first, second = job_in(JobState.RUNNING, job="beginning-of-one"), job_in(JobState.RUNNING, job="beginning-of-two")
    assert json.loads(sluice("jobs", "show", first[:-2], "--json").stdout)["job"] == first
    said = sluice("jobs", "show", "beginning-of-")
    assert said.returncode == 1
    assert first in said.stderr
    assert second in said.stderr
    assert sluice("jobs", "show", "beginning-of-three").returncode == 1


@pytest.fixture
def stores(stack_settings):
    """The stores of the run's stack."""
    with Connections.parse(stack_settings) as connections, Stores(connections) as stores:
        yield stores


def test_why_a_job_is_slow_is_shown(sluice, job_in, stores):
    """A chunk that fails again and again: which, how often, with what and where; and no forecast meanwhile."""
    began = datetime.now(UTC) - timedelta(minutes=10)
    name = job_in(JobState.RUNNING, done=1, dispatch_cursor=2, started_at=began)
    assert json.loads(sluice("jobs", "show", name, "--json").stdout)["predicted"]
    stores.attempts.note_failure(job_note(name, chunk_key(1, 1)), 3, ValueError("quoted text"))
    said = json.loads(sluice("jobs", "show", name, "--json").stdout)
    (retried,) = said["retried"]
    assert (retried["key"], retried["deliveries"], retried["kind"]) == ("chunk-000000001-1", 3, "ValueError")
    assert said["predicted"] is None
    assert "chunk-000000001-1, delivered 3 times: ValueError" in said["why"][0]
    shown = sluice("jobs", "show", name).stdout
    assert "tried again\tchunk-000000001-1, 3 times" in shown
    assert "quoted text" not in shown


def test_the_transactions_that_fail_of_a_chunk_are_counted(sluice, job_in, stores):
    """How many of how many, the first error with its place, and how often they are tried."""
    name = job_in(JobState.RUNNING, done=1, dispatch_cursor=2)
    try:
        {}["plan"]
    except KeyError as error:
        note_left(error, 100, 1, 8000)
        stores.attempts.note_failure(job_note(name, chunk_key(1, 1)), 2, error, tries=5)
    said = json.loads(sluice("jobs", "show", name, "--json").stdout)
    (retried,) = said["retried"]
    assert (retried["left"], retried["items"], retried["tries"]) == (1, 8000, 5)
    words = r"chunk 1: 1 of 8,000 is tried again: KeyError at \w+ \(test_jobs\.py:\d+\), try 2 of 5"
    assert re.fullmatch(words, said["why"][0])


def test_a_chunk_that_has_ended_is_not_tried_again(sluice, job_in, stores):
    """A second message of the chunk was done; the note of the first one stays, and says nothing any more."""
    name = job_in(JobState.RUNNING, done=0)
    row = ChunkRow(job=name, chunk=1, state=ChunkState.DONE, revision=1, settled_at=datetime.now(UTC))
    stores.ledger.commit(replace(stores.ledger.read(name), done=1), [row])
    stores.attempts.note_failure(job_note(name, chunk_key(1, 1)), 2, ValueError())
    assert json.loads(sluice("jobs", "show", name, "--json").stdout)["retried"] == []


def test_depth_and_age_of_its_queues_are_shown(sluice, job_in, stores):
    """One message waits on the only queue: a person sees how many and since when."""
    name = job_in(JobState.RUNNING)
    with stores.connections.queues.get_queue_client("work-00") as queue:
        queue.send_message("{}")
        said = json.loads(sluice("jobs", "show", name, "--json").stdout)
        queue.clear_messages()
    (look,) = said["queues"]
    assert (look["queue"], look["messages"] >= 1, bool(look["oldest_at"])) == ("work-00", True, True)
    assert "on its queues" in said["why"][-1]


@pytest.mark.parametrize(
    ("state", "said"), [(JobState.HELD, "sluice gate status nightly"), (JobState.PAUSED, "sluice jobs resume")]
)
def test_what_waits_for_a_person_says_for_which_command(sluice, job_in, state, said):
    """Nobody has to know the states to go on."""
    assert said in sluice("jobs", "show", job_in(state, gate="nightly")).stdout


@pytest.fixture
def refuse_at_door(stores):
    """A function that parks a submission at acceptance."""
    parked = []

    def park(job, reason="unknown_sum"):
        body = json.dumps({"sluice": {"job": job, "items": [len(parked)]}}).encode()
        error = RefusedError(reason, "workload 'billing' adds up no 'amount'", "declare quantity")
        delivery = Delivery(queue="submissions", message_id="m-1", body=body, count=1)
        parked.append(stores.parking.park(ACCEPT, delivery, error))
        return parked[-1]

    yield park
    with stores.connections.tables.get_table_client("parked") as table:
        for entry in parked:
            table.delete_entity(entry.job, entry.key)


@pytest.fixture
def refused(refuse_at_door):
    """A submission that was parked at acceptance: its sum names no field."""
    job = f"refused-{time.monotonic_ns()}"
    refuse_at_door(job)
    return job


def test_a_submission_that_was_parked_is_found_as_its_job(sluice, refused):
    """It is no unknown job: its reason and the next command are told, and a program gets them too."""
    done = sluice("jobs", "show", refused)
    assert done.returncode == 1
    for part in ("unknown_sum", "declare quantity", f"sluice parked show {refused} accept-"):
        assert part in done.stderr
    document = json.loads(sluice("jobs", "show", refused, "--json").stdout)
    assert (document["state"], document["refused"][0]["reason"]) == (None, "unknown_sum")


def test_who_watches_a_submission_that_was_parked_is_told(sluice, refused):
    """The watch ends by itself, although no job will ever come; with a time, at its end."""
    done = sluice("jobs", "watch", refused)
    assert done.returncode == 1
    assert "unknown_sum" in done.stderr
    assert "unknown_sum" in sluice("jobs", "watch", refused, "--timeout", "0").stderr


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("conflict", "a later submission with other content was refused at "),
        ("unknown_sum", "a later submission was refused (unknown_sum) at "),
    ],
)
def test_a_later_submission_that_was_refused_is_named_wherever_one_looks(sluice, job_in, refuse_at_door, reason, said):
    """The job of its id is complete, with the former content: no command lets that read as the later one's result."""
    name = job_in(JobState.COMPLETE, done=2, finished_at=datetime.now(UTC))
    quiet = job_in(JobState.COMPLETE, done=2, finished_at=datetime.now(UTC))
    entry = refuse_at_door(name, reason)
    wanted = (said, f"is parked: sluice parked show {name} {entry.key}")
    watched, shown, listed = (
        sluice("jobs", "watch", name),
        sluice("jobs", "show", name),
        sluice("jobs", "list", "--limit", "1000"),
    )
    assert (watched.returncode, shown.returncode, listed.returncode) == (1, 0, 0)
    for told in (watched.stderr, shown.stdout, listed.stderr):
        assert all(words in told for words in wanted), told
    assert f"{name}\tcomplete, another refused\t" in listed.stdout
    assert f"{quiet}\tcomplete\t" in listed.stdout
    for words in (("show", name), ("watch", name)):
        (one,) = json.loads(sluice("jobs", *words, "--json").stdout)["refused"]
        assert (one["key"], one["reason"]) == (entry.key, reason)
    by_job = {
        job["job"]: job["refused"]
        for job in json.loads(sluice("jobs", "list", "--limit", "1000", "--json").stdout)["jobs"]
    }
    assert [one["key"] for one in by_job[name]] == [entry.key]
    assert by_job[quiet] == []


def test_a_submission_that_was_refused_before_the_job_is_no_later_one(sluice, job_in, refuse_at_door):
    """A misspelt sum was corrected, and the same id accepted: the job is complete, and only its page has what is left."""
    name = f"cli-corrected-{time.monotonic_ns()}"
    refuse_at_door(name)
    later = datetime.now(UTC) + timedelta(minutes=1)
    job_in(JobState.COMPLETE, job=name, accepted_at=later, done=2, finished_at=later)
    assert sluice("jobs", "watch", name).returncode == 0
    assert (
        "another refused" not in sluice("jobs", "list", "--limit", "1000").stdout.partition(name)[2].partition("\n")[0]
    )
    assert "an earlier submission was refused (unknown_sum)" in sluice("jobs", "show", name).stdout


def test_the_list_says_how_old_a_state_is_and_what_fails(sluice, job_in, stores):
    """A job that fails again and again gives the list no news: its row says since when, and that it fails."""
    before = datetime.now(UTC) - timedelta(minutes=4, seconds=5)
    held = f"cli-held-{time.monotonic_ns()}"
    at_that_time = TableLedger(
        stores.connections.tables.get_table_client("jobs"),
        stores.connections.tables.get_table_client("jobindex"),
        clock=At(before),
    )
    known = {"content_hash": "0" * 64, "workload": "billing", "accepted_at": before, "items": 10, "chunks": 2}
    at_that_time.insert(Job(job=held, state=JobState.HELD, gate="nightly", **known))
    done = job_in(JobState.COMPLETE, accepted_at=before, finished_at=before)
    row = sluice("jobs", "list", "--limit", "1000").stdout.partition(f"{held}\t")[2].partition("\t")[0]
    assert re.fullmatch(r"held, seen 4 min \d+ s ago", row)
    stores.attempts.note_failure(job_note(held, chunk_key(1, 1)), 4, ValueError())
    stores.attempts.note_failure(f"submissions|{held}|m", 4, ValueError())
    listed = sluice("jobs", "list", "--limit", "1000").stdout
    row = listed.partition(f"{held}\t")[2].partition("\t")[0]
    assert re.fullmatch(r"held, seen 4 min \d+ s ago, failing", row)
    assert f"{done}\tcomplete\t" in listed
    by_job = {
        job["job"]: job["failing"]
        for job in json.loads(sluice("jobs", "list", "--limit", "1000", "--json").stdout)["jobs"]
    }
    assert (by_job[held], by_job[done]) == (True, False)


def test_the_list_is_four_requests_however_many_jobs_it_has(stack_settings, job_in, monkeypatch):
    """One for the jobs, one for the later news of those under way, one for the door, one for what fails."""
    for _ in range(5):
        job_in(JobState.RUNNING)
    meters = []
    parse = Connections.parse

    def metered(*arguments, **options):
        meters.append(parse(*arguments, **options))
        return meters[-1]

    monkeypatch.setattr(Connections, "parse", metered)
    assert CliRunner().invoke(app, ["jobs", "list", "--limit", "10"], env=stack_settings).exit_code == 0
    assert meters[-1].meter.tally.total() == 4


def test_small_sums_have_no_exponent(sluice, job_in):
    """Whatever is printed can be typed again."""
    totals = Totals(accepted=Portion(10, {"quantity": Decimal("0.0000004")}))
    name = job_in(JobState.COMPLETE, done=2, totals=totals, declared={"quantity": Decimal("4E-7")})
    said = json.loads(sluice("jobs", "show", name, "--json").stdout)
    assert (said["accepted"]["sums"], said["declared"]) == ({"quantity": "0.0000004"},) * 2
    assert "quantity 0.0000004" in sluice("jobs", "show", name).stdout


def test_who_watches_a_job_that_was_refused_before_is_told_at_once(sluice, refused):
    """It waits for another submission of the id, and says that it does."""
    done = sluice("jobs", "watch", refused)
    assert done.returncode == 1
    assert "an earlier submission is parked; waits 15 s for another one" in done.stderr


def test_the_help_of_watch_does_not_contradict_itself(sluice):
    """It takes the whole id, and says what each status means."""
    told = " ".join(sluice("jobs", "watch", "--help").stdout.split())
    assert "whole id" in told
    assert "its beginning is enough" not in told
    for status in ("0 the job is complete", "4 completed with parked", "5 unbalanced", "6 paused"):
        assert status in told.replace("│ ", "")


def test_the_outputs_of_a_job_are_lines(sluice, job_in, stores):
    """Output, rejected lines with their reasons, totals: unpacked, in order, of the last revision only."""
    name = job_in(JobState.COMPLETE, revision=2, finished_at=datetime.now(UTC))
    outputs = Outputs(stores.container("outputs"), name, 2)
    lines = PartWriter(outputs, "output", part_bytes=60)
    for number in range(10):
        lines.write({"invoice": number})
    lines.close()
    rejected = PartWriter(outputs, "rejected-000000")
    rejected.write_line(b'{"number":7,"reason":"no_rate","found":"CHF","line":"{}"}\n')
    rejected.close()
    made = PartWriter(outputs, "lines-000000")
    made.write({"number": 7})
    made.close()
    PartWriter(Outputs(stores.container("outputs"), name, 1), "output").close()
    totals = TotalsWriter(stores.totals, name, 2)
    totals.write(Total("alice", {"amount": "12.50", "count": 3_000_000_000}))
    totals.close()
    printed = sluice("jobs", "output", name).stdout.splitlines()
    assert [json.loads(line)["invoice"] for line in printed] == list(range(10))
    assert json.loads(sluice("jobs", "output", name, "--rejected").stdout)["reason"] == "no_rate"
    assert json.loads(sluice("jobs", "output", name, "--lines").stdout) == {"number": 7}
    account = json.loads(sluice("jobs", "output", name, "--totals").stdout)
    assert account == {"account": "alice", "revision": 2, "amount": "12.50", "count": 3_000_000_000}
    assert sluice("jobs", "output", name, "--rejected", "--totals").returncode == 2
    assert sluice("jobs", "output", name, "--lines", "--totals").returncode == 2


@pytest.mark.parametrize(
    ("state", "why"),
    [(JobState.RUNNING, "jobs watch"), (JobState.UNBALANCED, "no outputs"), (JobState.BURIED, "retention")],
)
def test_a_job_without_outputs_says_why(sluice, job_in, state, why):
    """An empty file would look like a result."""
    done = sluice("jobs", "output", job_in(state))
    assert (done.returncode, done.stdout) == (1, "")
    assert why in done.stderr


def test_the_newest_job_is_listed_first(sluice, job_in):
    """Who asks wants the last ones, and the states are those of the ledger."""
    older, newer = job_in(JobState.RUNNING), job_in(JobState.HELD, gate="nightly")
    listed = [job["job"] for job in json.loads(sluice("jobs", "list", "--limit", "1000", "--json").stdout)["jobs"]]
    assert listed.index(newer) < listed.index(older)
    assert sluice("jobs", "list").returncode == 0


def test_a_job_nobody_knows_is_a_problem(sluice):
    """A misspelt id is said to be one."""
    done = sluice("jobs", "show", "no-such-job")
    assert (done.returncode, "there is no job 'no-such-job'" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("state", "status"),
    [(JobState.COMPLETE, 0), (JobState.COMPLETED_WITH_PARKED, 4), (JobState.UNBALANCED, 5), (JobState.PAUSED, 6)],
)
def test_watching_ends_with_the_job_and_says_how(sluice, job_in, state, status):
    """Only a complete job is status 0, and each other end has its own, so that a script can rely on it."""
    assert sluice("jobs", "watch", job_in(state, finished_at=datetime.now(UTC))).returncode == status


def test_watching_a_job_that_does_not_end_is_bounded(sluice, job_in):
    """`--timeout` ends the wait with a status of its own, and the job as it is."""
    done = sluice("jobs", "watch", job_in(JobState.RUNNING), "--timeout", "0", "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (3, "running")


def test_watching_a_job_that_never_comes_is_bounded_too(sluice):
    """A job that nobody accepts is not waited for longer than asked."""
    done = sluice("jobs", "watch", "never-dropped", "--timeout", "0")
    assert (done.returncode, "check the id" in done.stderr) == (1, True)


def test_a_paused_job_is_resumed_and_audited(sluice, job_in, stack_settings):
    """It goes on where it stopped, by a pointer that the next tick follows, and who wanted it is in the audit."""
    name = job_in(JobState.PAUSED, parked_chunks=1, done=0, problem="too many chunks are parked")
    done = sluice("jobs", "resume", name, "--yes", "--why", "seen")
    assert done.returncode == 0, done.stderr
    assert json.loads(sluice("jobs", "show", name, "--json").stdout)["state"] == "dispatching"
    with Connections.parse(stack_settings) as connections:
        rows = connections.tables.get_table_client("audit").query_entities(f"target eq '{name}'")
        acts = [one.act for one in acts_of(rows)]
        assert [(act.what, act.why, act.result) for act in acts] == [("job resume", "seen", "dispatching")]
        pending = PendingTable(connections.tables.get_table_client("pending"))
        assert name in {one.id for one in pending.due(datetime.now(UTC)) if one.kind == "dispatch"}


def test_a_running_job_is_paused_and_audited(sluice, job_in, stack_settings):
    """It says how far the job is, and the next command. Once more it says so already."""
    name = job_in(JobState.RUNNING)
    for _ in range(2):
        done = sluice("jobs", "pause", name, "--why", "wrong tariff", "--by", "ann")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"job {name} is paused: " in done.stdout
        assert f"Go on: sluice jobs resume {name}" in done.stdout
    with Connections.parse(stack_settings) as connections:
        rows = connections.tables.get_table_client("audit").query_entities(f"target eq '{name}'")
        assert [(one.act.what, one.act.who, one.act.result) for one in acts_of(rows)] == [
            ("job pause", "ann", "paused")
        ]
    shown = sluice("jobs", "show", name).stdout
    assert "wrong tariff" in shown
    assert sluice("jobs", "resume", name, "--yes").returncode == 0


def test_a_job_is_stopped_with_its_numbers(sluice, job_in):
    """It asks first. Once more it says so already."""
    name = job_in(JobState.RUNNING)
    asked = sluice("jobs", "stop", name, "--why", "wrong file")
    assert (asked.returncode, "It ends for good" in asked.stdout + asked.stderr) == (1, True)
    for _ in range(2):
        done = sluice("jobs", "stop", name, "--why", "wrong file", "--yes")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"job {name} is stopped at revision 1: in " in done.stdout
        assert "not run" in done.stdout
    assert "wrong file" in sluice("jobs", "show", name).stdout
    assert sluice("jobs", "watch", name).returncode == 7


def test_a_job_that_has_ended_cannot_be_paused(sluice, job_in):
    """Nor without a reason: it is the problem that lists show."""
    done = sluice("jobs", "pause", job_in(JobState.COMPLETE), "--why", "late")
    assert (done.returncode, "it is complete: it has ended" in done.stderr) == (1, True)
    assert sluice("jobs", "pause", job_in(JobState.RUNNING)).returncode == 2


def test_a_job_that_is_not_paused_cannot_be_resumed(sluice, job_in):
    """The refusal says how the job is."""
    done = sluice("jobs", "resume", job_in(JobState.RUNNING), "--yes")
    assert (done.returncode, "it is running, expected paused" in done.stderr) == (1, True)
