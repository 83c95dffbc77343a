"""A process that dies at any request to the watch, or loses its reply: the next writer puts it right."""

import uuid
from datetime import timedelta

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.watch import Act, Need, NeedKind, Point, list_stood
from tests.concurrency.test_fleet_crashes import broken, every_fault
from tests.ledger.builders import NOON
from tests.watch.conftest import minute

PAUSED = NeedKind.PAUSED


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The library's retries wait for nobody here."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)


def test_a_need_and_its_marks_agree_after_any_crash(provisioned):
    """Begun and ended by a process that may die, and told again by the tick: it stood once, and stands no more."""

    def act(plan):
        name = f"job-{uuid.uuid4().hex[:8]}"
        need = Need(PAUSED, name, "x", NOON)

        def run(connections):
            watch = Stores(connections).watch
            watch.begin(need)
            watch.end(PAUSED, name, minute(3))

        broken(provisioned, plan, run)
        with Connections(provisioned.connection_string) as connections:
            watch = Stores(connections).watch
            stands = [one for one in watch.read().needs if one.about == name]
            marks = [one for one in list_stood(watch.read_hours(NOON, NOON), minute(9)) if one.about == name]
            # Together or not at all: a need that stands has begun, and one that does not has ended or never began.
            assert [one.last is None for one in marks] in ([True], [False]) if marks else not stands
            assert bool(stands) == any(one.last is None for one in marks)
            watch.end(PAUSED, name, minute(8))
            assert not [one for one in watch.read().needs if one.about == name]
            ended = [one for one in list_stood(watch.read_hours(NOON, NOON), minute(9)) if one.about == name]
            assert len(ended) == len(marks)
            assert all(one.last is not None for one in ended)
            watch.remove_old(NOON + timedelta(days=36))

    every_fault(act)


def test_a_point_or_an_act_is_there_once_or_not_at_all(provisioned):
    """The tick of the next minute writes its own column; an act that is marked twice has one column."""

    def act(plan):
        def run(connections):
            watch = Stores(connections).watch
            watch.record(NOON, Point(second=0.0, promise=180, depth=1))
            watch.note_act(Act(NOON, "ann", "gate open", "nightly", "opened"))

        broken(provisioned, plan, run)
        with Connections(provisioned.connection_string) as connections:
            watch = Stores(connections).watch
            watch.record(minute(1), Point(second=0.0, promise=180, depth=2))
            for _ in range(2):
                watch.note_act(Act(NOON, "ann", "gate open", "nightly", "opened"))
            (hour,) = watch.read_hours(NOON, NOON)
            assert [one.point.depth for one in hour.points] in ([1, 2], [2])
            assert len(hour.acts) == 1
            watch.remove_old(NOON + timedelta(days=36))

    every_fault(act)
