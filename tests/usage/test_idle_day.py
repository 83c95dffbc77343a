"""An idle day: as it is reckoned, and as the app makes it, tick by tick, against storage."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from shared.app import App, Stores
from shared.azure.connections import Connections
from shared.azure.meter import BUS
from shared.grammar import MOST_ROOMS
from shared.settings import Settings
from shared.topology import rooms, topology
from shared.usage.bill import load
from shared.usage.diary import Diary
from shared.usage.month import DAY, Installation, Who, idle_day, polling_seconds, price_idle_month
from shared.workloads.registry import Workloads
from tests.faults.world import SETTINGS, ManualClock
from tests.pipeline.whole_app import app_in_memory
from tools.local.azurite.launcher import Azurite
from tools.local.infra.capabilities import chosen
from tools.local.paths import ROOT
from tools.local.picture import triggers
from tools.local.provision import provision

PRICES = load()
#: Long past: no job of another test was due then.
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
#: The promises: our own requests, and all known ones of an app whose host polls once a minute.
MOST_OF_OURS, MOST_BY_TRIGGER = 3_300, 18_000
#: By push, with the recorder of the console, all known ones without rooms, and with any number of them.
MOST_BY_PUSH, MOST_WITH_ROOMS = 16_100, 21_900


def known(installation, *who):
    """Add up the known requests of these origins, or of all."""
    return sum(one.a_day for one in idle_day(installation) if one.is_proven and (not who or one.who in who))


def test_an_idle_day_keeps_the_promises_that_the_app_makes():
    """At a tick a minute ours are at most 3,300 in both modes. By trigger at 60 s all known ones are at most 18,000."""
    by_trigger, by_push = Installation(is_push=False, polling_seconds=60), Installation(is_push=True)
    assert known(by_trigger, Who.APP) <= MOST_OF_OURS
    assert known(by_push, Who.APP) <= MOST_OF_OURS
    assert known(by_trigger) <= MOST_BY_TRIGGER
    assert not any("work-" in one.what for one in idle_day(by_push))
    page = " ".join((ROOT / "docs" / "cost.md").read_text().split())
    assert f"in either mode the app makes at most {MOST_OF_OURS:,} requests on such a day" in page
    assert f"App and host make at most {MOST_BY_TRIGGER:,} by trigger" in page
    assert any("poll wake" in one.what for one in idle_day(by_trigger))


@pytest.mark.parametrize("is_push", [False, True])
def test_an_idle_day_without_capabilities_has_its_figure(is_push):
    """A request that a capability adds to the base shows here. A whole day below is held against the same arithmetic."""
    assert known(Installation(is_push=is_push), Who.APP) == 3_116


@given(st.floats(0.1, 3600), st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_every_poller_is_in_the_idle_day(seconds, queues, instances, is_push):
    """Each queue with a trigger is asked at its interval by each instance, none is left out, and that is all it adds."""
    one = Installation(is_push=is_push, work_queues=queues, polling_seconds=seconds, instances=instances)
    polls = [asker for asker in idle_day(one) if asker.is_poll]
    assert [asker.a_day for asker in polls] == [int(DAY / seconds) * instances] * (1 if is_push else 2)
    slow = Installation(is_push=is_push, work_queues=queues, polling_seconds=DAY, instances=instances)
    assert known(one) - known(slow) == sum(asker.a_day for asker in polls) - len(polls) * instances


@pytest.mark.parametrize(
    ("seconds", "a_day", "a_month"), [(1, 86_400, "1.04"), (5, 17_280, "0.21"), (60, 1_440, "0.02")]
)
def test_a_poll_has_its_price(seconds, a_day, a_month):
    """By push one queue is polled: what an interval costs a month is what a person chooses by."""
    (poll,) = [one for one in idle_day(Installation(is_push=True, polling_seconds=seconds)) if one.is_poll]
    assert (poll.a_day, f"{price_idle_month(poll, PRICES):.2f}") == (a_day, a_month)


@pytest.mark.parametrize(
    ("said", "environ", "seconds"),
    [
        ({}, {}, 60),
        ({"extensions": {"queues": {}}}, {}, 60),
        ({"extensions": {"queues": {"maxPollingInterval": "00:00:05"}}}, {}, 5),
        ({"extensions": {"queues": {"maxPollingInterval": "01:02:03.500"}}}, {}, 3_723.5),
        (
            {"extensions": {"queues": {"maxPollingInterval": "00:00:05"}}},
            {"AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:02"},
            2,
        ),
    ],
)
def test_the_interval_is_the_hosts_own(said, environ, seconds):
    """host.json says it, a setting overrides it, and without both the host takes a minute."""
    assert polling_seconds(said, environ) == seconds


def test_every_trigger_of_the_app_is_in_the_idle_day():
    """By push, as the worker indexes the app: each queue is polled, each entity of the bus waited for and counted."""
    found = Counter(kind for kind, _, _ in (source.partition(" ") for source in triggers().values()))
    one = Installation(is_push=True)
    waits = next(asker.a_day for asker in idle_day(one) if "receives on the bus" in asker.what)
    assert found["queue"] == len(one.polled)
    assert (found["bus"] + found["topic"]) * DAY // 60 == waits


@given(st.integers(1, MOST_ROOMS), st.booleans(), st.integers(0, 3))
def test_rooms_cost_the_same_from_fourteen_on(number, is_push, instances):
    """Each tick looks at four, each day at fourteen. No host polls their queues, and no scale controller counts them."""
    one = idle_day(Installation(rooms=number, is_push=is_push, instances=instances))
    none = idle_day(Installation(is_push=is_push, instances=instances))
    more = sum(asker.a_day for asker in one) - sum(asker.a_day for asker in none)
    noted = max(asker.a_day for asker in one if "notes" in asker.what) - max(
        asker.a_day for asker in none if "notes" in asker.what
    )
    assert more == 1_440 * min(number, 4) + 2 * min(number, 14) + 1 + noted


def test_an_idle_day_by_push_is_cheaper_than_one_by_trigger():
    """At the interval of host.json: without rooms, and with one, twenty and two hundred."""
    seconds = polling_seconds(json.loads((ROOT / "host.json").read_text()), {})
    days = {
        rooms: known(Installation(is_push=True, polling_seconds=seconds, rooms=rooms))
        for rooms in (0, 1, 20, MOST_ROOMS)
    }
    assert days[0] <= MOST_BY_PUSH <= known(Installation(is_push=False, polling_seconds=seconds))
    assert max(days.values()) <= MOST_WITH_ROOMS
    page = " ".join((ROOT / "docs" / "cost.md").read_text().split())
    assert f"{MOST_BY_PUSH:,} by push. With one to {MOST_ROOMS} rooms push makes at most {MOST_WITH_ROOMS:,}" in page


def test_every_trigger_of_registration_is_in_the_idle_day():
    """Where it is on: thirteen entities more with four lanes, and one queue more that is polled."""
    found = Counter(
        kind
        for kind, _, _ in (
            source.partition(" ") for source in triggers(("SLUICE_CAPABILITIES", "registration")).values()
        )
    )
    one = Installation(is_push=True, capabilities=(chosen("registration"),))
    assert found["queue"] == len(one.polled)
    assert found["bus"] + found["topic"] == one.bus_listeners
    assert one.bus_listeners == Installation(is_push=True).bus_listeners + 13


@pytest.mark.parametrize(
    ("settings", "one"),
    [
        ((), Installation()),
        ((("SLUICE_DEQUEUE", "trigger"),), Installation(is_push=False)),
        ((("SLUICE_CAPABILITIES", "registration"),), Installation(capabilities=(chosen("registration"),))),
    ],
    ids=["push", "trigger", "registration"],
)
def test_every_function_is_in_one_group(settings, one):
    """Azure scales each function by itself. Those with a route share a group."""
    sources = list(triggers(*settings).values())
    assert one.function_groups == len([source for source in sources if source != "http"]) + ("http" in sources)


@pytest.mark.parametrize(
    ("number", "most"),
    [
        (0, MOST_BY_PUSH),
        # Above fourteen rooms all numbers cost the same, and the days below have one room.
        pytest.param(MOST_ROOMS, MOST_WITH_ROOMS, marks=pytest.mark.ci("a whole day is slow")),
    ],
)
def test_a_whole_idle_day_by_push_keeps_its_promise_with_any_number_of_rooms(number, most):
    """1,440 ticks: what the app requests, and what the host does by the arithmetic."""
    names = tuple(f"team-{one}" for one in range(number))
    with app_in_memory(rooms(names), settings=replace(SETTINGS, rooms=names)) as made:
        made.stores.causes.note_checked(made.clock.now())
        tally = made.metered.meter.tally
        before, diary = tally.counts(), Diary(made.stores.usage, tally, made.clock)
        for _ in range(DAY // 60):
            made.app.tick()
            diary.note_if_due()
            made.clock.advance(minutes=1)
        counted = Counter(tally.counts()) - Counter(before)
    ours = sum(requests for (kind, _), requests in counted.items() if kind.service != BUS)
    one = Installation(is_push=True, rooms=number)
    # A check of each room may fall on the day before.
    assert known(one, Who.APP) - 10 <= ours <= known(one, Who.APP), counted
    assert known(one) <= most


@pytest.fixture
def empty_azurite():
    """Storage that no other test has left anything in."""
    with Azurite.start() as azurite:
        yield azurite


@pytest.mark.ci("a whole day is slow")
@pytest.mark.parametrize(("dequeue", "is_on"), [("trigger", False), ("push", False), ("push", True)])
def test_a_whole_idle_day_costs_what_is_reckoned(dequeue, is_on, empty_azurite, broker):
    """1,440 ticks and the notes of the diary, at their own hours: the app requests what the arithmetic says, no more.

    With registration on, those of the agenda are added. With it off there is not one.
    """
    of_room = ("team-a",)
    provision(
        empty_azurite.connection_string,
        topology(2, [rooms(of_room), *(chosen("registration").entities if is_on else [])]),
    )
    environ = {
        "SluiceStorage": empty_azurite.connection_string,
        "SluiceBus": broker.connection_string,
        "SLUICE_TICK_SCHEDULE": "0 * * * * *",
        "SLUICE_DEQUEUE": dequeue,
        "SLUICE_WORK_QUEUES": "2",
        "SLUICE_ROOMS": ",".join(of_room),
        "SLUICE_CAPABILITIES": "registration" if is_on else "",
    }
    settings, clock = Settings.parse(environ), ManualClock()
    clock.at = BEGIN
    with Connections.parse(environ) as before:
        # The installation is no new one: the tick of the day before compared the index of causes.
        Stores(before, clock=clock).causes.note_checked(BEGIN)
    with Connections.parse(environ) as connections:
        tally = connections.meter.tally
        stores = Stores(connections, clock=clock)
        diary = Diary(stores.usage, tally, clock)
        app = App(connections, settings, Workloads.load(settings.workloads, environ), stores=stores)
        for _ in range(DAY // 60):
            app.tick()
            diary.note_if_due()
            clock.advance(minutes=1)
        made = Counter()
        for (kind, _), number in tally.counts().items():
            made[f"{kind.service} {kind.operation} {kind.entity}"] += number
    is_push, on = settings.dequeue == "push", settings.capabilities
    one = Installation(is_push=is_push, work_queues=2, rooms=len(of_room), capabilities=on)
    reckoned = known(one, Who.APP)
    assert made.total() == reckoned, made
    assert clock.now() - BEGIN == timedelta(days=1)
