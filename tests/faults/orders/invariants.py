"""What must hold of orders and seats when everything has come to rest; each breach is one sentence."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from capabilities.registration.entities import STARTS_IN_ORDER
from capabilities.registration.order import OrderPhase
from capabilities.registration.order_process import OrderProcess, OrderStage
from capabilities.registration.seats import Seats, check_balance
from capabilities.registration.views import CONFERENCE_MODEL, ORDER_MODEL
from shared.processes import Mementos, restore_process
from shared.readmodels.projection import fold_all
from shared.readmodels.slot_table import ViewPlace
from tests.faults.invariants import left_over, parked, trace

#: The gate of these runs.
GATE = "sale"

_OK = 202
_ANSWERS = {"order_reserved", "order_partially_reserved"}


def breaches(world, scenario) -> Iterator[str]:
    """Yield everything that is wrong."""
    own = world.own()
    orders = {home: _restored(world, own, home) for home in _homes(own, ORDER_MODEL)}
    conferences = {home: Mementos(own.homes, Seats(), 500).read(home).state for home in _homes(own, CONFERENCE_MODEL)}
    yield from _answers(world, orders, scenario)
    for home, process in orders.items():
        yield from _order(own, home, process, scenario)
    for home, seats in conferences.items():
        yield from _seats(own, home, seats, orders)
    if set(conferences) != {f"seats-{name}" for name in scenario.conferences}:
        yield f"there are the conferences {sorted(conferences)}"
    yield from _payments(world, orders)
    yield from _numbers(own, orders)
    yield from _rolls(world, own)
    for model in (ORDER_MODEL, CONFERENCE_MODEL):
        yield from _views(own, model)
    yield from parked(world.observer(), scenario)
    yield from left_over(world)
    yield from trace(world, scenario)
    yield from scenario.more(world, own, conferences)


def _homes(own, model):
    found, cursor = [], ""
    while cursor is not None:
        page = own.homes.heads(model.homes, cursor)
        found += [home for home, _ in page.heads]
        cursor = page.cursor
    return found


def _restored(world, own, home):
    choice = world.settings.capability("registration").choice
    process = OrderProcess(window=choice.reservation, buffer=choice.buffer, most_seats=choice.seats_per_order)
    return restore_process(process, own.homes.load(home))[0]


def _answers(world, orders, scenario):
    """Whoever was told that an order is stored gets the same answer again, and the order is there."""
    answers, last = defaultdict(set), {}
    for order, status, body in world.journal.entries("answered"):
        last[order] = status
        if status == _OK:
            answers[order].add(body)
    for order, bodies in answers.items():
        yield from _answered(order, bodies, orders.get(f"order-{order}"))
    asked = {order for (order,) in world.journal.entries("asked")}
    if scenario.asks_again:
        yield from (f"{order} never got an answer" for order in sorted(asked) if last.get(order) not in {_OK, 409})
    taken = {fields["order"] for kind, fields in world.journal.entries("dropped") if kind == "place_order"}
    yield from (f"lost: there is no order {order}" for order in sorted(taken) if f"order-{order}" not in orders)
    yield from (f"nobody ordered {home}" for home in orders if home.removeprefix("order-") not in asked | taken)
    changes = {(order, body) for order, status, body in world.journal.entries("changed") if status == _OK}
    if len(changes) > len({order for order, _ in changes}):
        yield f"one change was answered in several ways: {sorted(changes)}"


def _answered(order, bodies, process):
    if len(bodies) > 1:
        yield f"{order} was answered in {len(bodies)} ways: {sorted(bodies)}"
    if process is None:
        yield f"lost: {order} was answered and is not there"
    elif process.order.number != json.loads(next(iter(bodies)))["number"]:
        yield f"{order} was answered another number than {process.order.number}"


def _order(own, home, process, scenario):
    order = process.order
    if process.stage is not OrderStage.COMPLETED:
        yield f"stuck: {home} is {order.phase}, its process {process.stage}"
        return
    wanted = scenario.ends.get(order.order)
    if wanted is not None and order.phase not in wanted:
        yield f"{home} ended {order.phase}, expected {' or '.join(wanted)}"
    kinds = {event.kind for event in own.homes.read_tail(home, 0)}
    if scenario.is_answered and order.phase is OrderPhase.EXPIRED and not kinds & _ANSWERS:
        yield f"late: {home} expired before the seats had answered it"
    if order.phase is OrderPhase.CONFIRMED and order.total and (order.paid is None or order.paid.amount != order.total):
        yield f"{home} is confirmed for {order.total}, and was paid {order.paid}"
    if order.phase is not OrderPhase.CONFIRMED and order.paid:
        yield f"{home} is {order.phase}, and a payment counts for it"


def _seats(own, home, seats, orders):
    mine = [one for one in orders.values() if f"seats-{one.order.conference}" == home]
    yield from (f"{home}: the balance of {name!r} is wrong" for name in check_balance(seats))
    sold = Counter()
    for one in mine:
        sold.update(one.order.reserved if one.order.phase is OrderPhase.CONFIRMED else {})
    for name, balance in seats.types.items():
        if balance.reserved:
            yield f"leaked: {balance.reserved} seats of {name!r} stay reserved in {home}"
        if balance.confirmed != sold[name]:
            yield f"{home} sold {balance.confirmed} of {name!r}, its orders have {sold[name]}"
        if not balance.is_even or balance.confirmed > balance.quota:
            yield f"oversold: {home} has {balance}"
    heard = {(event.body.get("order"), event.generation) for event in own.homes.read_tail(home, 0)}
    for one in mine:
        # The last one makes an earlier one that comes after it without effect.
        if one.generation and (one.order.order, one.generation) not in heard:
            yield f"a command was lost: {one.order.order} ordered generation {one.generation} in vain"


def _payments(world, orders):
    for kind, fields in world.journal.entries("dropped"):
        if kind != "payment" or fields["outcome"] != "completed":
            continue
        order = getattr(orders.get(f"order-{fields['order']}"), "order", None)
        if order is None:
            yield f"a payment of {fields['order']} was lost with it"
            continue
        known = [one.id for one in order.unsettled] + ([order.paid.id] if order.paid else [])
        if known.count(fields["id"]) != 1:
            yield f"lost: payment {fields['id']} is {known.count(fields['id'])} times among {known}"


def _numbers(own, orders):
    numbers = [process.order.number for process in orders.values()]
    if len(set(numbers)) != len(numbers):
        yield f"orders share numbers: {numbers}"
    for home, process in orders.items():
        if own.agenda.find(process.order.number) != home:
            yield f"number {process.order.number} does not lead to {home}"


def _views(own, model):
    pointer = own.views.pointers.read(model)
    for version, slot in pointer.places:
        projection = model.projection(version)
        for home in _homes(own, model):
            events = own.homes.read_tail(home, 0)
            key = projection.key(home, events)
            found = own.views.slots[slot].find(ViewPlace.of(model.name, version, key))
            wanted = fold_all(projection, events)
            # A private event behind the last public one is sent with the next: a row may not have seen it.
            if found is None or found.view != json.loads(json.dumps(wanted.view)):
                yield f"the view {model.name} {version} of {home} is not what its events say"


def _rolls(world, own):
    """The starts of an opening are sent in the order of its roll, whose hash is in the audit, and which goes one day."""
    rows = world.observer().tables.get_table_client("audit").list_entities()
    noted = {(row["target"], row["epoch"]): row["result"] for row in rows if row["what"] == "gate roll"}
    sent = [
        one["id"] for letter in world.bus.sent(STARTS_IN_ORDER) for one in json.loads(letter.body)["sluice"]["commands"]
    ]
    for epoch in own.stores.rolls.epochs(GATE):
        roll = own.stores.rolls.find(GATE, epoch)
        if roll.sha256 not in noted.get((GATE, str(epoch)), ""):
            yield f"the hash of the roll of epoch {epoch} is not in the audit"
        if f"{GATE}-{epoch}" not in world.kept_rolls():
            yield f"the roll of epoch {epoch} would stay for ever"
        started = [id_ for id_ in dict.fromkeys(sent) if id_ in {place.id for place in roll.places}]
        if started != [place.id for place in roll.places if place.id in started]:
            yield f"out of order: the roll of epoch {epoch} was started as {started}"
    for target, epoch in noted:
        if own.stores.rolls.find(target, int(epoch)) is None:
            yield f"the audit names a roll of epoch {epoch} that is not there"
