"""`sluice jobs rerun JOB --dry-run`, with the code of the folder in which it is typed."""

import json
import re
from datetime import UTC, datetime
from itertools import count

import pytest

from shared.publish import Publisher
from shared.topology import payload_container, submission_queue
from tests.faults.world import SMALL
from tests.pipeline.whole_app import running_app
from tools.local import readme
from tools.local.paths import ROOT

#: The workload of the README, and changes of it: what its `map` does, and what it is called.
CODE = readme.workload()
DEARER = CODE.replace("return sale.units", "return sale.units * 2 if sale.units == 3 else sale.units")
FAILING = CODE.replace("return sale.units", "return sale.units // (sale.units - 3)")
EXITING = CODE.replace("return sale.units", "raise SystemExit(0)")
WAITING = CODE.replace("def map", "async def map")
WITH_TOTALS = CODE.replace("import Line", "import Line, Total").replace(
    "        yield Line", '        yield Total("a-17", {"units": partial})\n        yield Line'
)


PAGE = (ROOT / "docs" / "workloads.md").read_text().partition("### On a job that has ended")[2].partition("\n## ")[0]
COMMAND = re.search(r"```sh\nsluice (.*?)\n```", PAGE)[1].split()
PRINTED = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
CHANGED = re.search(r"`(return sale\.units)` changed to `(.*?)`", PAGE).groups()


@pytest.fixture(scope="module")
def app():
    """An app on an Azurite of its own, with a finished job of three sales in two chunks."""
    names = {}
    exec(CODE, names)
    with running_app(workload=names["Sales"]()) as made:
        queue = made.others.queues.get_queue_client(submission_queue(""))
        payloads = made.others.blobs.get_container_client(payload_container(""))
        sales = [{"units": units} for units in (2, 3, 4)]
        Publisher(queue, payloads, limits=SMALL).submit(job="sales-1", transactions=sales, workload="sales")
        made.work_off()
        yield made


@pytest.fixture
def rerun(sluice, app, stack_settings, tmp_path):
    """Type the command in a folder with this code."""

    def typed(code, *words, job="sales-1", **settings):
        (tmp_path / "sales.py").write_text(code)
        known = {**stack_settings, "SluiceStorage": app.storage, "SLUICE_WORKLOADS": "sales:Sales", **settings}
        return sluice("jobs", "rerun", job, *words, settings=known)

    return typed


def test_the_same_code_ends_with_status_0(rerun):
    """A person reads that nothing differs."""
    done = rerun(CODE, "--dry-run", "--chunks", "all")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.sub(r"\d+\.\d s CPU", "N s CPU", done.stdout).splitlines() == [
        "2 of 2 chunks (3 transactions) of revision 1, N s CPU: accepted 3 = 3, rejected 0 = 0",
        "output lines 1 = 1, equal",
        "nothing differs",
    ]


def test_other_code_ends_with_status_1_and_says_what_differs(rerun):
    """Amounts with their accounts, lines, and transactions that raise."""
    dearer = rerun(DEARER, "--dry-run", "--chunks", "all")
    assert dearer.returncode == 1
    assert dearer.stdout.splitlines()[-4:] == [
        "output lines 1 = 1, others",
        '  - {"units":9}',
        '  + {"units":12}',
        "status 1: they differ",
    ]
    totals = rerun(WITH_TOTALS, "--dry-run", "--chunks", "all")
    assert "accounts 1: 0 equal, 0 differ, 1 new, 0 gone; units +9\n  a-17 new: units 9" in totals.stdout
    failing = rerun(FAILING, "--dry-run", "--chunks", "all")
    assert (failing.returncode, failing.stderr) == (1, "")
    assert "chunks that fail: 1\n  chunk 0: transaction " in failing.stdout
    assert (
        "ZeroDivisionError: integer division or modulo by zero; 1 of 2 transactions failed at sales.py"
        in failing.stdout
    )
    assert "totals were not compared" in failing.stdout


def test_the_page_shows_what_the_command_prints(rerun):
    """With the change that it describes."""
    done = rerun(CODE.replace(*CHANGED), *COMMAND[3:])
    assert done.returncode == 1
    assert masked(done.stdout) == masked(PRINTED)


def masked(text):
    """Return the text without its chunks and its time: those of the page are of an installation's size."""
    return re.sub(r"\d+ of \d+ chunks|\d+\.\d s CPU", "N", text)


def test_a_workload_that_exits_does_not_end_the_command(rerun):
    """Its status would read as "nothing differs"."""
    done = rerun(EXITING, "--dry-run", "--chunks", "all")
    assert (done.returncode, "chunks that fail: 2" in done.stdout) == (1, True)


def test_a_program_gets_all_that_differs(rerun):
    """One document, with the same status."""
    done = rerun(DEARER, "--dry-run", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["differs"], said["chunks"]["compared"]) == (1, True, 1)
    assert (said["output"]["gone"], said["output"]["new"]) == (['{"units":5}'], ['{"units":8}'])


@pytest.mark.parametrize(
    ("words", "status", "found"),
    [
        ((), 2, "say --why to run it again, or --dry-run to compare and write nothing"),
        (("--why", "x", "--json"), 2, "say --why to run it again, or --dry-run to compare and write nothing"),
        (("--dry-run", "--chunks", "some"), 2, "'some' names no chunks"),
        (("--dry-run", "--workload", "other"), 2, "there is no workload 'other' here (known: sales)"),
    ],
)
def test_a_call_that_makes_no_sense_says_why(rerun, words, status, found):
    """Before anything runs."""
    done = rerun(CODE, *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert found in " ".join(done.stderr.replace("│", " ").split())


def test_code_that_cannot_be_loaded_or_may_act_outside_is_refused(rerun):
    """With status 2, and what to do."""
    waiting = rerun(WAITING, "--dry-run")
    assert (waiting.returncode, "add --calls-outside" in waiting.stderr) == (2, True)
    assert rerun(WAITING, "--dry-run", "--calls-outside").returncode == 0
    broken = rerun("1/0", "--dry-run")
    assert (broken.returncode, "sales:Sales cannot be loaded: ZeroDivisionError" in broken.stderr) == (2, True)


def test_a_job_that_is_not_there_is_status_1(rerun):
    """As in every command."""
    done = rerun(CODE, "--dry-run", job="nothing-of-the-kind")
    assert (done.returncode, "there is no job" in done.stderr) == (1, True)


@pytest.fixture
def finished(app):
    """A job that has ended, of its own name."""
    names = count(1)

    def make():
        name = f"again-{next(names)}-{id(names)}"
        queue = app.others.queues.get_queue_client(submission_queue(""))
        payloads = app.others.blobs.get_container_client(payload_container(""))
        sales = [{"units": units} for units in (2, 3, 4)]
        Publisher(queue, payloads, limits=SMALL).submit(job=name, transactions=sales, workload="sales")
        app.work_off()
        return name

    return make


def test_a_rerun_says_first_what_it_does_and_is_audited(rerun, finished, app, diff):
    """Without a yes nothing is written. A repeated call of the same revision begins no second run."""
    job = finished()
    asked = rerun(CODE, "--why", "tariff corrected", job=job)
    assert asked.returncode == 1
    assert (
        f"job {job} is complete at revision 1. To rerun it: 1 job, with the deployed code: 2 chunks with 3 transactions: "
        in asked.stdout
    )
    assert app.read(job).revision == 1
    for _ in range(2):
        done = rerun(CODE, "--why", "tariff corrected", "--by", "ann", "--yes", "--if-revision", "1", job=job)
        assert (done.returncode, done.stdout) == (
            0,
            f"job {job} is dispatching at revision 2: `sluice jobs watch {job}`, then `sluice jobs diff {job}`\n",
        )
    refused = rerun(CODE, "--why", "once more", job=job)
    assert (refused.returncode, "it is dispatching: pause or stop it first" in refused.stderr) == (1, True)
    open_ = diff(job)
    assert (open_.returncode, "revision 2 has no outputs, the job is dispatching" in open_.stderr) == (1, True)
    # As by the hint: the command has the clock of this machine.
    app.app.stages.starter.go_on(job)
    app.work_off()
    assert (app.read(job).state.value, app.read(job).revision) == ("complete", 2)
    found = app.stores.audit.newest(f"{datetime.now(UTC):%Y-%m}", 10, about=job)
    assert {(one.act.what, one.act.who, one.act.result) for one in found} == {
        ("job rerun", "ann", "revision 2, dispatching")
    }
    same = diff(job)
    assert (same.returncode, same.stdout.splitlines()) == (
        0,
        [
            f"job {job}, revision 1 -> 2: accepted 3 = 3, rejected 0 = 0, parked 0 = 0",
            "neither has totals: compare their output lines",
            "nothing differs",
        ],
    )


def test_a_diff_of_a_job_that_never_ran_again_says_so(diff, finished):
    """With the command's ordinary status."""
    done = diff(finished())
    assert (done.returncode, "no revision of a run before it has outputs" in done.stderr) == (1, True)


@pytest.fixture
def diff(sluice, app, stack_settings):
    """Type the comparison of two runs."""

    def typed(job, *words):
        return sluice("jobs", "diff", job, *words, settings={**stack_settings, "SluiceStorage": app.storage})

    return typed
