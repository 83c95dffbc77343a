"""Warm, crash, take back: over real HTTP, with every request lost or its process ended."""

import copy
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from shared.azure.connections import Connections
from shared.errors import NewerVersionError, ScalingRefusedError, SluiceError
from shared.scaling import ResourceManager, WarmRequest, records_of
from shared.scaling.instances import LEAD
from shared.scaling.warm_decisions import WATCH
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import UNTOLD, KilledError, Plan
from tests.scaling.conftest import GATE, REQUEST, Night
from tests.scaling.resource_manager_server import CONFIGURATION, OTHERS, SITE

HOUR = timedelta(hours=1)
#: For 6,000 chunks of a second in ten minutes, by push.
WARM = {"http": 1, "function:drain_work": 10, "function:release_gate": 1, "function:settle_results": 1}
COLD = {"http": 1}
WATCH_MINUTES = int(WATCH / timedelta(minutes=1)) + 2


def test_instances_are_there_before_the_opening_and_go_when_the_work_is_done(night):
    """And nothing is left of it: no record, no pointer, no count."""
    night.schedule(HOUR)
    night.jump(49)
    assert night.server.requests == [], "nothing is asked of Azure before the lead"
    night.minutes(1)
    assert night.server.counts == WARM
    night.minutes(10)
    night.release()
    night.minutes(8)
    assert night.server.counts == WARM
    night.finish()
    night.minutes(3)
    assert night.server.counts == COLD
    night.jump(WATCH_MINUTES)
    assert (night.record.is_empty, night.pointers) == (True, [])


def test_a_change_touches_the_counts_and_nothing_else(night):
    """Tags, identity, an operator's other fields and those of tomorrow are as they were, before and after."""
    night.server.configuration["siteUpdateStrategy"] = {"type": "RollingUpdate"}
    night.server.scale["aFieldOfTomorrow"] = {"also": ["kept"]}
    night.server.scale["alwaysReady"][0]["aFieldOfTomorrow"] = "kept"
    before = copy.deepcopy(night.server.configuration)
    night.schedule(HOUR)
    night.jump(50)
    warmed = copy.deepcopy(night.server.configuration)
    added = [one for one in warmed["scaleAndConcurrency"]["alwaysReady"] if one["name"] not in COLD]
    assert {one["name"]: one["instanceCount"] for one in added} == {k: v for k, v in WARM.items() if k not in COLD}
    warmed["scaleAndConcurrency"]["alwaysReady"] = [
        one for one in warmed["scaleAndConcurrency"]["alwaysReady"] if one["name"] in COLD
    ]
    assert warmed == before
    night.minutes(10)
    night.release()
    night.finish()
    night.minutes(2)
    assert night.server.configuration == before
    assert night.server.others == OTHERS
    assert all(set(body) == {"properties"} for *_, body in night.server.requests if body)
    assert all(set(body["properties"]) == {"functionAppConfig"} for *_, body in night.server.requests if body)


def test_work_that_never_ends_keeps_them_for_the_bound_only(night):
    """Three times the ten minutes that were planned."""
    night.schedule(HOUR)
    night.minutes(60)
    night.release()
    night.minutes(29)
    assert night.server.counts == WARM
    night.minutes(1)
    assert night.server.counts == COLD


def test_a_cancelled_opening_gives_them_back_and_a_moved_one_has_them_later(night):
    """`gate close` needs to know nothing of it."""
    night.schedule(HOUR)
    night.jump(50)
    night.stores.gate_operator.close(GATE, by="bob")
    night.minutes(2)
    assert night.server.counts == COLD
    night.schedule(HOUR)
    night.jump(50)
    night.schedule(3 * HOUR)
    night.minutes(1)
    assert night.server.counts == COLD
    night.jump(180 - 11)
    assert night.server.counts == WARM


def test_an_opening_without_them_drops_those_that_were_planned(night):
    """As `gate open --at --cold` does."""
    night.schedule(HOUR)
    records_of(night.stores).drop(GATE)
    night.minutes(60)
    assert night.server.requests == []
    assert (night.record.is_empty, night.pointers) == (True, [])


def test_an_opening_that_holds_nothing_warms_nothing(connections, server, clock):
    """And asks Azure for no change."""
    night = Night(connections, server, clock)
    night.schedule(HOUR)
    night.minutes(60)
    assert {method for method, *_ in server.requests} == {"GET"}


def test_a_tick_without_a_planned_opening_makes_no_request_of_its_own(provisioned, connections, server, clock):
    """It reads the pointers, as every tick does: one request."""
    plan = Plan()
    with Connections(provisioned.connection_string, transport=plan.transport) as counted:
        Night(counted, server, clock).tick()
    assert (plan.count, server.requests) == (1, [])


def test_a_check_while_the_work_runs_is_a_few_requests(provisioned, connections, server, clock, night):
    """Pointers, record, gate, held rows, pointers again, the job, the next pointer, the old one; and one of Azure."""
    night.schedule(HOUR)
    night.minutes(60)
    night.release()
    night.minutes(2)
    before, plan = len(server.requests), Plan()
    clock.advance(minutes=2)
    with Connections(provisioned.connection_string, transport=plan.transport) as counted:
        Night(counted, server, clock).tick()
    assert plan.count <= 8, plan.sites
    assert [method for method, *_ in server.requests[before:]] == ["GET"]


class EndingBefore(ResourceManager):
    """Ends the process before a change is sent."""

    def change(self, _site, _body):
        """End."""
        raise KilledError


class EndingAfter(ResourceManager):
    """Ends the process after a change took effect, as a restart of the app by that change would."""

    def change(self, site, body):
        """Send it, and end."""
        super().change(site, body)
        raise KilledError


@pytest.mark.parametrize("kind", [EndingBefore, EndingAfter])
@pytest.mark.parametrize("minute", [50, 62])
def test_warm_crash_take_back(night, kind, minute):
    """A process that ends at the change, when it warms or when it gives back, leaves what the next tick completes."""
    night.schedule(HOUR)
    night.jump(49)
    for passed in range(50, 66):
        night.manager_kind = kind if passed == minute else ResourceManager
        if passed == minute:
            with pytest.raises(KilledError):
                night.minutes(1)
        else:
            night.minutes(1)
        if passed == 60:
            night.release()
            night.finish()
    assert night.server.counts == COLD
    night.jump(WATCH_MINUTES)
    assert (night.record.is_empty, night.pointers) == (True, [])


@pytest.mark.parametrize("fault", ["dropped", "lost", 409, 412])
def test_a_request_to_azure_that_fails_is_made_again_by_the_next_tick(server, clock, fault, some):
    """Whichever it is; a reply that was lost after its effect leads to no second effect."""
    with MemoryStorage().connections() as connections:
        numbers = len(whole(Night(connections, server, clock)))
    assert numbers > 10
    for number in some(range(1, numbers + 1)):
        server.requests.clear()
        server.faults = {number: fault}
        with MemoryStorage().connections() as connections:
            whole(Night(connections, server, clock))
        assert server.faults == {}
        assert server.counts == COLD


def whole(night):
    """Warm, release, finish and give back, with failing ticks in between; return what was asked of Azure."""
    night.hold()
    night.stores.gate_operator.close(GATE, by="ann")
    night.schedule(timedelta(minutes=20))
    night.clock.advance(minutes=9)
    for passed in range(10, 28):
        with suppress(SluiceError):
            night.minutes(1)
        if passed == 20:
            night.release()
        if passed == 22:
            assert night.server.counts == WARM, "a fault costs a tick, not the instances"
            night.finish()
    for _ in range(2):
        with suppress(SluiceError):
            night.jump(WATCH_MINUTES)
    night.tick()
    assert (night.record.is_empty, night.pointers) == (True, [])
    return night.server.requests


@pytest.mark.parametrize("mode", UNTOLD)
@pytest.mark.parametrize("act", ["plan", "warm", "give back", "forget"])
def test_a_fault_at_any_storage_request_is_completed_by_the_next_tick(*, act, mode, server, clock, some, monkeypatch):
    """Every request of each act is lost or its process ended; then nothing is left of it, and nothing was missed."""
    # The pauses before repetitions are of no interest here, only the repetitions.
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0)

    def run(plan):
        storage = MemoryStorage()
        with (
            storage.connections() as whole,
            Connections(storage.connection_string, transport=lambda: storage.transport(plan)) as broken,
        ):
            crash(act, Night(whole, server, clock), Night(broken, server, clock))
        return plan.count

    count = run(Plan())
    assert count >= 2
    for at in some(range(1, count + 1)):
        plan = Plan.of(at, mode)
        run(plan)
        assert plan.fired, f"{mode} at request {at} never happened"


def crash(act, night, faulty):
    """Run the whole night, one act of it by a process with a fault."""

    def do(name, act_of):
        with suppress(KilledError, SluiceError):
            act_of(faulty if name == act else night)

    night.hold()
    night.stores.gate_operator.close(GATE, by="ann")
    opens_at = night.clock.now() + timedelta(minutes=20)

    def plan(process):
        prepare = partial(records_of(process.stores).plan, GATE, REQUEST)
        process.stores.gate_operator.schedule(GATE, opens_at, by="ann", prepare=prepare)

    do("plan", plan)
    plan(night)
    night.clock.advance(minutes=9)
    do("warm", lambda process: process.minutes(1))
    night.minutes(3)
    assert night.server.counts == WARM
    night.clock.advance(minutes=7)
    night.release()
    night.finish()
    do("give back", lambda process: process.minutes(2))
    night.minutes(3)
    assert night.server.counts == COLD
    do("forget", lambda process: process.jump(WATCH_MINUTES))
    night.jump(WATCH_MINUTES)
    night.jump(WATCH_MINUTES)
    assert night.server.counts == COLD
    assert (night.record.is_empty, night.pointers) == (True, [])


def test_two_ticks_at_once_do_it_once_or_the_same_twice(night):
    """Both read before either wrote: the second finds its record refused, and leaves its pointer."""
    night.schedule(HOUR)
    night.clock.advance(minutes=50)
    first, second = night.warmer.check(), night.warmer.check()
    assert night.warmer.carry_out(first)
    assert not night.warmer.carry_out(second)
    assert [method for method, *_ in night.server.requests].count("PATCH") == 1


def test_a_decision_that_grew_old_is_not_sent(night):
    """The process stood still after it had written its intention: the next check sends it."""
    night.schedule(HOUR)
    night.clock.advance(minutes=50)
    check = night.warmer.check()
    night.clock.advance(minutes=3)
    assert not night.warmer.carry_out(check)
    assert night.server.counts == COLD
    night.tick()
    assert night.server.counts == WARM


def test_a_record_of_another_app_is_not_carried_out(night, connections, server, clock):
    """The setting was changed while instances are warm: that is said, with both ids."""
    night.schedule(HOUR)
    night.jump(50)
    with pytest.raises(ScalingRefusedError, match=r"other.*sluice-app"):
        Night(connections, server, clock, site=SITE.replace("sluice-app", "other")).warmer.check()
    other = WarmRequest(site="/else", within=REQUEST.within, most=20)
    with pytest.raises(ScalingRefusedError, match="not given back yet"):
        night.schedule(3 * HOUR, warm=other)
    assert night.server.configuration != CONFIGURATION


def test_a_check_that_nobody_does_is_told_after_half_an_hour(night, clock):
    """Where the app has no identity for it: the tick fails, which alerts."""
    night.schedule(HOUR)
    (pointer,) = night.pointers
    clock.advance(minutes=50 + 29)
    records_of(night.stores).demand_check(pointer)
    clock.advance(minutes=2)
    with pytest.raises(ScalingRefusedError, match="sluice tune warm --due"):
        records_of(night.stores).demand_check(pointer)


def test_a_record_that_is_none_is_refused(night, connections):
    """With the way out."""
    connections.blobs.get_container_client("settings").upload_blob("warm", b'{"v": 1, "openings": 3}', overwrite=True)
    with pytest.raises(ScalingRefusedError, match="restore an earlier version"):
        records_of(night.stores).read()
    connections.blobs.get_container_client("settings").upload_blob("warm", b'{"v": 2}', overwrite=True)
    with pytest.raises(NewerVersionError, match="deploy the newer version"):
        records_of(night.stores).read()


def test_the_lead_is_before_the_opening():
    """The tests above count on ten minutes."""
    assert timedelta(minutes=10) == LEAD
