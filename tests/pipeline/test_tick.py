"""The whole tick of the app, as it is wired: what it costs when nothing waits, and that one failure hides no other."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.app import App, Stores
from shared.app.app import Tick
from shared.azure.connections import Connections
from shared.errors import StorageUnavailableError
from shared.pending import OUTBOX_POINTER, Followers, Pointer, Range
from shared.settings import Settings
from shared.telemetry import events
from shared.workloads.registry import Workloads
from tests.faults.plan import Plan
from tests.gate.conftest import ManualClock

QUIET, QUARTER = datetime(2020, 1, 1, 12, 1, tzinfo=UTC), datetime(2020, 1, 1, 12, 15, tzinfo=UTC)
FULL = datetime(2020, 1, 1, 13, tzinfo=UTC)
NIGHT = datetime(2020, 1, 1, 3, 0, 20, tzinfo=UTC)


@pytest.fixture
def tick_at(stack_settings, provisioned):
    """Run one tick of the wired app at a time when nothing that tests left behind is due; return its requests."""
    with Connections.parse(stack_settings) as cleaning:
        # A call to the feeder is due since 1970: one that a test left behind is due in these ticks of 2020.
        for name, due in (("held", ""), ("pending", f"RowKey lt '{QUIET:%Y}'")):
            table = cleaning.tables.get_table_client(name)
            for row in table.query_entities(due):
                table.delete_entity(row)

    def run(now):
        with Connections(provisioned.connection_string) as connections:
            Stores(connections).causes.note_checked(now)
        plan = Plan()
        with Connections(provisioned.connection_string, transport=plan.transport) as connections:
            settings, clock = Settings.parse(stack_settings), ManualClock(now)
            workloads = Workloads.load(settings.workloads, stack_settings)
            App(connections, settings, workloads, stores=Stores(connections, clock=clock)).tick()
        # The first tick of a process finds out when the index of causes was last compared, and writes a point.
        return [kind for kind in plan.kinds if not kind.endswith(" decisions")]

    return run


def test_an_idle_tick_makes_two_requests(tick_at):
    """One finds no gate that holds something, one finds nothing due: that is what idle costs."""
    assert tick_at(QUIET) == ["GET pending", "GET held"]


def test_every_hour_the_poison_queues_are_looked_at(tick_at):
    """Each of them once: what the host gave up on is not left there."""
    looked = [kind for kind in tick_at(FULL) if kind.endswith("-poison")]
    assert sorted(looked) == ["GET submissions-poison", "GET work-00-poison"]
    assert not any(kind.endswith("-poison") for kind in tick_at(QUARTER))


def test_once_a_day_payloads_that_nobody_needs_are_looked_for(tick_at):
    """Five requests for up to 5,000 blobs each: the sweep is noted, the oldest submission, two pages, the note goes."""
    made = [kind for kind in tick_at(NIGHT) if not kind.endswith("-poison")]
    assert made == [
        "GET pending",
        "GET held",
        "PUT pending",
        "GET submissions",
        "GET payloads",
        "GET plans",
        "DELETE pending",
    ]


class Index:
    """A range of the index that knows of these pointers."""

    def __init__(self, *pointers, error=None):
        self.pointers, self.error = list(pointers), error

    def read_known(self, _until, _most):
        """Return them, or fail."""
        if self.error:
            raise self.error
        return self.pointers, None


class Did(list):
    """Notes each step by its name; a step that a test breaks fails as well."""

    def step(self, name, error=None):
        """Return a step of that name."""

        def run(*_given):
            self.append(name)
            if error:
                raise error

        return run


def test_a_step_that_fails_does_not_keep_the_others_from_running(told):
    """Reading a range, a step, a follower: each fails alone, and the first error is the one that the host logs."""
    did, clock = Did(), ManualClock(QUARTER)
    broken, whole = (
        Index(error=StorageUnavailableError("range")),
        Index(*(Pointer("job", NIGHT, name) for name in "ab")),
    )
    followers = Followers([(Range("agenda"), broken), (Range("pending"), whole)], clock)
    followers.register("note", did.step("never"), range="agenda")
    followers.register("job", did.step("job", StorageUnavailableError("job")))
    judged = []
    tick = Tick(
        followers=followers,
        first=[did.step("gates", StorageUnavailableError("gates"))],
        last=[did.step("drain", StorageUnavailableError("drain")), did.step("tune")],
        clock=clock,
        judge=judged.append,
    )
    with pytest.raises(StorageUnavailableError, match="range"):
        tick.run()
    assert did == ["gates", "job", "job", "drain", "tune"]
    assert len(told(events.TICK_FAILED)) == 5
    (said,) = judged
    assert said.startswith("StorageUnavailableError: range at ")


def test_an_announcement_that_is_late_is_told_with_how_late(provisioned, told):
    """The follower of its pointer sends it, and says since when it was due."""
    with Connections(provisioned.connection_string) as connections:
        Stores(connections, clock=ManualClock(QUARTER)).outbox.follow(
            Pointer(OUTBOX_POINTER, QUARTER - timedelta(minutes=12), "nightly", "*")
        )
    assert told(events.OUTBOX_LATE) == [{"job": "nightly", "late_seconds": 720}]
