"""What must hold when everything has come to rest; each breach is one sentence."""

from collections import Counter
from datetime import timedelta
from typing import NamedTuple

from shared.app import App, Stores
from shared.clock import SystemClock
from shared.ledger.records import JobState, Totals
from shared.pending import JOB_POINTER, RETENTION_POINTER
from shared.settings import Settings
from shared.workloads.billing import Billing
from shared.workloads.registry import Workloads
from tests.chaos.stack import FRAME_ITEMS, wait_until
from tests.outside import checker

#: Seconds within which the feeder has forgotten what waited.
FED_WITHIN = 120


class Later(SystemClock):
    """The time of day, some time ahead; for ticks that follow what is due later."""

    def __init__(self, ahead):
        self._ahead = ahead

    def now(self):
        """Return the later time."""
        return super().now() + self._ahead

    def of_reply(self, told):
        """Return the later time, whatever storage tells."""
        return self.now()


def tick_later(stack, ahead):
    """Run the app's tick beside the app, as if it were later."""
    connections, clock = stack.connections, Later(ahead)
    settings, stores = Settings.parse(stack.settings), Stores(connections, clock=clock)
    with App(connections, settings, Workloads([Billing()]), stores=stores) as app:
        app.tick()


def breaches(stack, expected, *, parked=0, others=()):
    """Yield what is wrong with the jobs, and with what is left over; `others` are jobs that end in other ways."""
    connections = stack.connections
    ledger = Stores(connections).ledger
    jobs = {one.job: ledger.read(one.job) for one in expected}
    for one in expected:
        if jobs[one.job] is None:
            yield f"lost: {one.job}"
        else:
            yield from _counted(ledger, jobs[one.job])
            storage = stack.azurite.connection_string
            yield from checker.check(storage, one.job, one.lines(), first_id=jobs[one.job].id_base)
    yield from checker.overlaps([(job.id_base, job.items, job.job) for job in jobs.values() if job])
    entries = list(Stores(connections).parked_table.entries(closed=True))
    # A hostile frame may be shared by several chunks, each of which parks it.
    things = {(entry.stage, entry.about if entry.stage == "process" else entry.message_id) for entry in entries}
    if len(things) != parked:
        reasons = Counter((entry.stage, entry.reason) for entry in entries)
        yield f"{len(things)} things are parked, expected {parked}: {dict(reasons)}"
    yield from _left_over(stack, set(others))


def _counted(ledger, job):
    if job.state is not JobState.COMPLETE:
        yield f"{job.job} is {job.state.value}"
    rows = list(ledger.rows(job.job))
    if [row.chunk for row in rows] != list(range(job.chunks)):
        yield f"{job.job} has {len(rows)} chunk rows of {job.chunks}"
    if sum((row.totals for row in rows), Totals()) != job.totals:
        yield f"the chunks of {job.job} do not add up to it"


def _left_over(stack, others):
    # The feeder learns of the last end in its next round, and forgets the room in the one after it.
    wait_until(lambda: not _list_ready(stack), FED_WITHIN, lambda: f"still wait for a turn: {_list_ready(stack)}")
    # Pointers to finished jobs turn into those of their retention; a day later nothing else may be left but what waits
    # for a person.
    tick_later(stack, timedelta(days=1))
    for row in stack.connections.tables.get_table_client("pending").list_entities():
        _, kind, name = row["RowKey"].split("|", 2)
        if kind != RETENTION_POINTER and (kind != JOB_POINTER or name not in others):
            yield f"pending still points to {kind} {name}"


def _list_ready(stack):
    keys = [row["RowKey"] for row in stack.connections.tables.get_table_client("pending").list_entities()]
    return [key for key in keys if key.startswith("ready")]


class Computed(NamedTuple):
    """How many chunks of a job were computed, and how many of them more than once."""

    computed: int
    again: int


def computed_again(stack, expected):
    """Return how often the chunks of a job were computed."""
    job, runs = Stores(stack.connections).ledger.read(expected.job), Counter()
    for words in stack.notes():
        if words[0] == "run":
            runs[int(words[1])] += 1
    counts = [runs[job.id_base + chunk * FRAME_ITEMS] for chunk in range(job.chunks)]
    return Computed(sum(count > 0 for count in counts), sum(count > 1 for count in counts))
