"""The flows of registration that are run with a fault at each of their requests, storage's and the bus's."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from capabilities.registration.entities import CONFERENCES as SHOP, PAYMENTS, STARTS_IN_ORDER, TIMEOUTS
from capabilities.registration.order import OrderPhase
from capabilities.registration.views import ORDER_MODEL
from shared.azure.bus import ServiceBusError
from shared.errors import SluiceError
from shared.readmodels import Phase
from tests.faults.host import StuckError
from tests.faults.orders.host import CONFERENCES, LANE, REPLIES, VIEWS, only
from tests.faults.orders.invariants import breaches
from tests.faults.orders.world import CODE, CONFERENCE, GATE, KEY, OrderWorld
from tests.faults.plan import Plan
from tests.faults.scenarios import Scenario

A, B, C = "order-a", "order-b", "order-c"
#: Ticks that recovery may take, and the minutes between them: the window and its buffer are over after a few.
MOST_TICKS, BETWEEN = 12, 4
#: More than the faults of a run.
MOST_POSTS = 3
_TAKEN = 202
#: Minutes after which every window is over.
WINDOW = 17
EXPIRED, CONFIRMED, REJECTED = (OrderPhase.EXPIRED,), (OrderPhase.CONFIRMED,), (OrderPhase.REJECTED,)


def come_to_rest(world, app):
    """Deliver and tick until nobody is waiting for anything: by then every window is over."""
    for _ in range(MOST_TICKS):
        app.host().run()
        waiting = world.unfinished()
        if not waiting:
            return
        world.clock.advance(minutes=BETWEEN)
        with suppress(SluiceError):
            app.tick()
    raise StuckError(f"after {MOST_TICKS} ticks there still is {', '.join(waiting)}")


@dataclass(frozen=True)
class OrderScenario(Scenario):
    """One flow of registration, or all of them."""

    world: type = OrderWorld
    rest: Callable = come_to_rest
    check: Callable = breaches
    #: Notes of what a fault left are due by then, and no window is over.
    pause: float = 2.5
    #: The phases that an order may end in.
    ends: dict = field(default_factory=dict)
    conferences: tuple = (CONFERENCE,)
    #: Whether customers ask until they are answered.
    asks_again: bool = True
    #: Whether the seats answer each order before it expires.
    is_answered: bool = True
    #: What else must hold, from the world, its stores and the seats of its conferences.
    more: Callable = lambda _world, _own, _conferences: ()


def run(app, *names):
    """Let the host deliver what waits on these, and nothing else."""
    app.host(hold_back=only(*names)).run()


def drop_once(world, kind, **fields):
    """Drop a message unless it was dropped before the fault."""
    if [kind, fields] not in [list(entry) for entry in world.journal.entries("dropped")]:
        world.drop(kind, **fields)


def open_conference(world, app, quota=3):
    """Have a conference with one seat type, and its view."""
    world.drop("conference", id="k1", conference=CONFERENCE, seats={"a": {"price": "500.00", "quota": quota}})
    run(app, SHOP, CONFERENCES)


def announced(world, app):
    """Have a conference on the queue, twice."""
    for _ in range(2):
        world.drop("conference", id="k1", conference=CONFERENCE, seats={"a": {"price": "500.00", "quota": 3}})


def announce(world, app):
    """Take the conference, then changes of it: they would be refused before it is there."""
    run(app, SHOP, CONFERENCES)
    drop_once(world, "add_seats", id="k2", conference=CONFERENCE, seats={"a": 4})
    drop_once(world, "remove_seats", id="k3", conference=CONFERENCE, seats={"a": 2})
    run(app, SHOP, CONFERENCES)


def quota_is(number):
    """Return the check that the conference has this quota."""

    def check(_world, _own, conferences):
        quota = conferences[f"seats-{CONFERENCE}"].types["a"].quota
        if quota != number:
            yield f"the quota is {quota}, expected {number}: a message was lost or counted twice"

    return check


def ordered(world, app, wanted=((A, 2), (B, 2), (C, 1)), quota=3, gate=None):
    """Have orders placed, and their reserves on the lane."""
    open_conference(world, app, quota)
    for order, seats in wanted:
        app.post(order, seats, gate)


def sold(world, app, **options):
    """Have the answers of the seats on their way."""
    ordered(world, app, **options)
    run(app, LANE)


def reserved(world, app, wanted=((A, 2), (B, 1), (C, 1)), quota=4):
    """Have orders reserved, and shown."""
    sold(world, app, wanted=wanted, quota=quota)
    run(app, REPLIES, VIEWS, CONFERENCES)


def place(world, app):
    """Place two orders, one by a code and one by a key: whoever asks again gets the same answer."""
    app.post(A, 2)
    app.post(B, key=KEY)


def place_while_slow(world, app):
    """Place an order by a process whose writes come late, let the tick look meanwhile, and have them come."""
    with world.app(Slow()) as slow:
        slow.post(A)
        world.clock.advance(minutes=2)
        app.tick()
        slow.plan.come()


class Slow(Plan):
    """Storage that writes homes long after their sender gave up."""

    def take(self, site, **details):
        """Let the note pass, and the home come late."""
        super().take(site, **details)
        self.groups = getattr(self, "groups", 0) + (site == "POST $batch")
        return "hang_then_timeout" if site == "POST $batch" and self.groups > 1 else ""

    def catch_up(self):
        """Do not catch up before the process ends."""

    def come(self):
        """Let what was late take effect."""
        super().catch_up()


def on_queue(world, app):
    """Have orders on the queue, one twice."""
    open_conference(world, app)
    for order in (A, B, A):
        world.drop("place_order", order=order, conference=CONFERENCE, seats={"a": 1})


def place_held(world, app):
    """Place an order behind a closed gate."""
    app.post(A, gate=GATE)


def place_and_open(world, app):
    """Place it again, and open the gate."""
    place_held(world, app)
    app.open_gate()


def held(world, app):
    """Have orders behind a closed gate, which came against their ids, one of them changed since."""
    ordered(world, app, ((C, 1), (B, 1), (A, 1)), quota=4, gate=GATE)
    app.change(B, version_of(world, B), 2)


def version_of(world, order):
    """Return the version of an order as its home has it."""
    return world.own().orders.find(order).order.version


def release(world, app):
    """Open the gate, and start what it held."""
    app.open_gate()
    run(app, "signals", STARTS_IN_ORDER)


def release_in_vain(world, app):
    """Open the gate, and have the starts on the bus."""
    app.open_gate()
    run(app, "signals")


def lose_starts(world, app):
    """Open the gate again if it was not said to be open, and lose what is on the queue of starts."""
    app.open_gate()
    run(app, "signals")
    world.bus.complete(world.bus.waiting(STARTS_IN_ORDER))


def resize_beside(world, app):
    """Sell, have another process add seats, and take some away again here, where the state is still warm."""
    run(app, LANE)
    with world.app(Plan()) as other:
        add(world, other)
    remove(world, app)


def add(world, app):
    """Have seats added."""
    drop_once(world, "add_seats", id="k2", conference=CONFERENCE, seats={"a": 3})
    run(app, SHOP)


def remove(world, app):
    """Have as many seats removed: without the added ones there are too few."""
    drop_once(world, "remove_seats", id="k3", conference=CONFERENCE, seats={"a": 3})
    run(app, SHOP)


def resize_again(world, app):
    """Do what was not done."""
    add(world, app)
    remove(world, app)


def sell_beside(world, app):
    """Sell to one order, have another process sell to the next, and go on here, where the state is still warm."""
    app.post(A)
    run(app, LANE)
    with world.app(Plan()) as other:
        other.post(B)
        run(other, LANE)
    app.post(C)
    run(app, LANE)


def place_all(world, app):
    """Place them again."""
    for order in (A, B, C):
        app.post(order)


def paying(world, app):
    """Have payments on the queue: right, a second one, of a wrong amount, rejected and then right."""
    reserved(world, app)
    world.pay(A, "1", "1000.00")
    world.pay(A, "2", "1000.00")
    world.pay(B, "1", "1.00")
    world.pay(C, "1", outcome="rejected")
    world.pay(C, "2")
    world.pay(C, "2")


def paid_early(world, app):
    """Have a payment on the queue before the seats have answered."""
    ordered(world, app, ((A, 1),))
    world.pay(A)


def paid(world, app):
    """Have the confirms on the lane."""
    paying(world, app)
    run(app, PAYMENTS)


def paid_late(world, app):
    """Have a payment on the queue, and the order expired."""
    expiring(world, app)
    run(app, TIMEOUTS, LANE)
    world.pay(A, amount="1000.00")


def changing(world, app):
    """Have orders reserved, and on the queue a change of one of them."""
    reserved(world, app, ((A, 1), (B, 2)), quota=4)
    world.drop("update_order", id="u1", order=B, version=version_of(world, B), seats={"a": 1}, access_code=CODE)


def change(world, app):
    """Want more seats for the one, and fewer for the other."""
    change_first(world, app)
    run(app, "orders", LANE, REPLIES)


def change_first(world, app):
    """Want more seats in place of those that the order was given first, however often this is asked."""
    events = world.own().homes.read_tail(f"order-{A}", 0)
    app.change(A, next(event.version for event in events if event.kind == "order_reserved"), 2)


def expiring(world, app):
    """Have orders reserved whose windows are over."""
    reserved(world, app)
    world.clock.advance(minutes=WINDOW)


def expire(world, app):
    """Follow the hints, and give the seats back."""
    run(app, TIMEOUTS, LANE)


def expire_by_tick(world, app):
    """Have the tick find what is over: the hints are lost."""
    world.bus.complete(world.bus.waiting(TIMEOUTS))
    app.tick()
    run(app, LANE)


def cut_off(world, app):
    """Have orders placed by a process that reached no bus."""
    open_conference(world, app)
    with world.app(Unheard()) as lonely:
        for order in (A, B):
            lonely.post(order)
    world.clock.advance(minutes=3)


class Unheard(Plan):
    """A bus that takes nothing."""

    def around(self, site, act):
        """Refuse it."""
        raise ServiceBusError("down")


def tick(world, app):
    """Run the timer, and what it put on its way."""
    app.tick()
    run(app, LANE, REPLIES)


def project(world, app):
    """Bring both views up to date."""
    run(app, VIEWS, CONFERENCES)


def unseen(world, app):
    """Have orders with all that happens to one, of which the views know nothing."""
    open_conference(world, app, 4)
    app.post(A, 2)
    app.post(B)
    run(app, LANE, REPLIES)
    world.pay(A, amount="1000.00")
    run(app, PAYMENTS, LANE)


def migrating(world, app):
    """Have orders that are shown, and a payment on the queue."""
    reserved(world, app)
    world.pay(A, amount="1000.00")


def migrate(world, app, *, goes_back=False):
    """Build a new version of a view, with an order that is paid meanwhile; switch, and finish."""
    migration = app.migration()
    migration.plan()
    migration.start()
    run(app, PAYMENTS, VIEWS)
    end_migration(app, goes_back=goes_back)


def end_migration(app, *, goes_back):
    """Compare, switch, and finish, on the former version or on the new one."""
    migration = app.migration()
    migration.verify()
    migration.switch()
    if goes_back:
        migration.roll_back()
    migration.finish()


def migrate_again(world, app, *, goes_back=False):
    """Type what was not answered once more, as `status` says."""
    world.end_leases()
    # A view that is behind its messages is no right one.
    run(app, PAYMENTS, VIEWS)
    migration = app.migration()
    phase = migration.read().phase
    if phase is Phase.DONE:
        return
    if phase in {Phase.NONE, Phase.DOUBLING, Phase.BUILDING}:
        migration.start()
    if phase is not Phase.FINISHING and not (goes_back and phase is Phase.ROLLED_BACK):
        end_migration(app, goes_back=goes_back)
    else:
        migration.finish()


def version_is(number):
    """Return the check that readers use this version, and that nothing is left of the other."""

    def check(_world, own, _conferences):
        pointer = own.views.pointers.read(ORDER_MODEL)
        if (pointer.current, pointer.phase) != (number, Phase.DONE):
            yield f"the migration is {pointer.phase}, the current version is {pointer.current}"
        if next(iter(own.views.slots[pointer.slot.other].old_rows(ORDER_MODEL.name)), []):
            yield "rows of the other version are left"

    return check


def given_up(world, app):
    """Have the bus give up a reserve."""
    ordered(world, app, ((A, 1),))
    world.bus.complete(world.bus.waiting(LANE))


def bury(world, app):
    """Park the dead letter, and let its order go on."""
    (letter,) = [one for one in world.bus.sent(LANE) if one.kind == "commands"][:1]
    app.bury(LANE, letter)
    run(app, LANE)


def sale(world, app):
    """Sell two seats to three orders: one is paid, one expires, one gets none.

    Each customer asks again until an answer comes. Who gave up would leave the seat to the next.
    """
    for order in (A, B, C):
        any(app.post(order).status == _TAKEN for _ in range(MOST_POSTS))
    app.host().run()
    pay_first(world)
    app.host().run()
    world.clock.advance(minutes=WINDOW)
    app.tick()
    app.host().run()


def pay_first(world):
    """Pay the first order that is reserved, once."""
    fields = {"id": "pay-1", "order": A, "outcome": "completed", "amount": "500.00"}
    drop_once(world, "payment", **fields)


def sale_again(world, app):
    """Place them again, let the seats answer, and pay."""
    for order in (A, B, C):
        app.post(order)
    app.host().run()
    pay_first(world)


def outcome_of_sale(world, own, conferences):
    """One seat is sold."""
    confirmed = conferences[f"seats-{CONFERENCE}"].types["a"].confirmed
    if confirmed != 1:
        yield f"{confirmed} seats are sold, one was paid"


ALL_EXPIRED = {A: EXPIRED, B: EXPIRED, C: EXPIRED}
ORDER_SCENARIOS = (
    OrderScenario("announce a conference", announced, announce, announce, more=quota_is(5)),
    OrderScenario("place orders", open_conference, place, place, ends=ALL_EXPIRED),
    OrderScenario("place orders, and nobody asks again", open_conference, place, ends=ALL_EXPIRED, asks_again=False),
    OrderScenario(
        "tick while a process is slow", open_conference, place_while_slow, ends=ALL_EXPIRED, asks_again=False
    ),
    OrderScenario("take orders from the queue", on_queue, lambda w, a: run(a, "orders"), ends=ALL_EXPIRED),
    OrderScenario("place an order behind a gate", open_conference, place_held, place_and_open, ends=ALL_EXPIRED),
    OrderScenario("release and start orders", held, release, lambda w, a: a.open_gate(), ends=ALL_EXPIRED),
    OrderScenario("release, and the starts are lost", held, release_in_vain, lose_starts, ends=ALL_EXPIRED),
    OrderScenario("sell seats", ordered, lambda w, a: run(a, LANE), ends={**ALL_EXPIRED, C: REJECTED}),
    OrderScenario("sell, and another process sells", open_conference, sell_beside, place_all, ends=ALL_EXPIRED),
    OrderScenario(
        "sell, and another process adds seats",
        lambda w, a: ordered(w, a, ((A, 2), (B, 1))),
        resize_beside,
        resize_again,
        ends=ALL_EXPIRED,
        more=quota_is(3),
    ),
    OrderScenario("hear the seats' answers", sold, lambda w, a: run(a, REPLIES), ends={**ALL_EXPIRED, C: REJECTED}),
    OrderScenario("pay", paying, lambda w, a: run(a, PAYMENTS), ends={A: CONFIRMED, B: EXPIRED, C: CONFIRMED}),
    OrderScenario(
        "pay before the seats have answered",
        paid_early,
        lambda w, a: run(a, PAYMENTS, LANE, REPLIES),
        ends={A: CONFIRMED},
    ),
    OrderScenario("confirm", paid, lambda w, a: run(a, LANE), ends={A: CONFIRMED, B: EXPIRED, C: CONFIRMED}),
    OrderScenario("change orders", changing, change, change_first, ends=ALL_EXPIRED),
    OrderScenario("expire by a hint", expiring, expire, ends=ALL_EXPIRED),
    OrderScenario("expire by the tick", expiring, expire_by_tick, ends=ALL_EXPIRED),
    OrderScenario("pay after the expiry", paid_late, lambda w, a: run(a, PAYMENTS), ends=ALL_EXPIRED),
    OrderScenario("tick after a process reached no bus", cut_off, tick, ends=ALL_EXPIRED),
    OrderScenario("project orders and conferences", unseen, project, ends={A: CONFIRMED, B: EXPIRED}),
    OrderScenario(
        "migrate a view",
        migrating,
        migrate,
        migrate_again,
        ends={A: CONFIRMED, B: EXPIRED, C: EXPIRED},
        more=version_is(2),
    ),
    OrderScenario(
        "migrate a view and go back",
        migrating,
        lambda w, a: migrate(w, a, goes_back=True),
        lambda w, a: migrate_again(w, a, goes_back=True),
        ends={A: CONFIRMED, B: EXPIRED, C: EXPIRED},
        more=version_is(1),
    ),
    OrderScenario(
        "bury a dead letter of the lane",
        given_up,
        bury,
        bury,
        ends=ALL_EXPIRED,
        parked=(("registration", "dead_lettered"),),
        # Until a person puts the reserve back.
        is_answered=False,
    ),
    OrderScenario(
        "the whole sale",
        lambda w, a: open_conference(w, a, 2),
        sale,
        sale_again,
        ends={A: CONFIRMED, B: EXPIRED, C: REJECTED},
        more=outcome_of_sale,
    ),
)
