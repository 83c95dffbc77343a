"""Registration: what orders wait for, orders with their story, the balance of seats, and migrations of read models."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from werkzeug.exceptions import BadRequest, NotFound

from capabilities.console.acts import read_form
from capabilities.console.pages import CapabilityPages, Route
from capabilities.console.visit import Page, Visit
from capabilities.registration.entities import RegistrationChoice
from capabilities.registration.flows import RegistrationStores
from capabilities.registration.http import describe_order
from capabilities.registration.order import OrderPhase
from capabilities.registration.order_columns import ORDERS, RUNNING_ORDERS, running_order
from capabilities.registration.views import CONFERENCE_MODEL, ORDER_MODEL, READ_MODELS, state_of
from shared.errors import MigrationRefusedError
from shared.operating import AuditedAct, Hit, HitKind
from shared.readmodels import AT_WORK, Migration, ModelPointer, Phase, StoredView, ViewPlace, say_next

#: Names a template of this package.
_OWN: Final = f"{__package__}:"
#: Rows that one page reads of a view, in one request.
_MOST: Final = 100
_NAME: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}")
#: Processes of a page.
_MOST_WAITING: Final = 100


@dataclass(frozen=True, slots=True)
class OrdersPart:
    """The sources of the pages."""

    stores: RegistrationStores
    choice: RegistrationChoice


def show_processes(visit: Visit) -> Page:
    """Show the orders that run, the one that expires first at the top. One request a shard."""
    rows = [running_order(row) for row in _part(visit).stores.read_timeouts()]
    values = {
        "columns": RUNNING_ORDERS,
        "rows": rows[:_MOST_WAITING],
        "number": len(rows),
        "stuck": sum(row.is_stuck(visit.now) for row in rows),
    }
    return Page(title="Processes", section="processes", template=f"{_OWN}processes.html", values=values)


def show_orders(visit: Visit) -> Page | str:
    """Show a page of orders, in the order of their rows, or go to the one that was looked for. Two requests."""
    stores, wanted = _part(visit).stores, visit.query.get("id", "").strip()
    if wanted:
        return visit.link("order", order=wanted)
    state, only_unsettled = visit.query.get("state", ""), visit.query.get("unsettled") == "yes"
    if state and state not in {one.value for one in OrderPhase}:
        raise BadRequest(f"an order has one of these states: {', '.join(OrderPhase)}")
    pointer = stores.views.pointers.read(ORDER_MODEL)
    read, following = _read_rows(visit, pointer)
    found = [describe_order(state_of(one.view)) for one in read if one.view]
    rows = [row for row in found if (not state or row["state"] == state) and (row["unsettled"] or not only_unsettled)]
    values = {
        "columns": ORDERS,
        "rows": rows,
        "read": len(read),
        "states": list(OrderPhase),
        "state": state,
        "only_unsettled": only_unsettled,
        "following": following,
    }
    return Page(title="Orders", section="orders", template=f"{_OWN}orders.html", values=values)


def show_order(visit: Visit, order: str) -> Page:
    """Show an order as its customer reads it, and its causal story."""
    part = _part(visit)
    story, seen = part.stores.tell_order(order, part.choice), part.stores.orders.look_up(order)
    if story is None or seen is None:
        raise NotFound(f"there is no order {order[:100]!r}")
    values = {"row": describe_order(seen.order), "story": story}
    return Page(title=f"Order {seen.order.order}", section="orders", template=f"{_OWN}order.html", values=values)


def show_conferences(visit: Visit) -> Page:
    """Show a page of conferences as their customers read them. Two requests."""
    pointer = _part(visit).stores.views.pointers.read(CONFERENCE_MODEL)
    read, following = _read_rows(visit, pointer)
    rows = [(one.place.key, one.view["seats"]) for one in read if one.view]
    values = {"rows": rows, "following": following}
    return Page(title="Seats", section="seats", template=f"{_OWN}conferences.html", values=values)


def show_conference(visit: Visit, conference: str) -> Page:
    """Show the balance of a conference, proven from all its events."""
    found = _part(visit).stores.tell_seats(conference)
    if found is None:
        raise NotFound(f"there is no conference {conference[:100]!r}")
    values = {"found": found, "conference": conference}
    return Page(title=f"Seats of {conference}", section="seats", template=f"{_OWN}seats.html", values=values)


@dataclass(frozen=True, slots=True)
class _ModelRow:
    pointer: ModelPointer
    following: str
    stands: timedelta | None


def show_migrations(visit: Visit) -> Page:
    """Show each read model with its version and its migration. One request each."""
    read = _part(visit).stores.views.pointers.read
    rows = [_row(read(model), visit.now) for model in READ_MODELS.values()]
    return Page(title="Migrations", section="migrations", template=f"{_OWN}migrations.html", values={"rows": rows})


def show_migration(visit: Visit, model: str) -> Page:
    """Show one read model. One request. It looks again while a build or a removal goes on."""
    pointer = _read_pointer(visit, model)
    values = {"row": _row(pointer, visit.now), "seen": _say_seen(pointer)}
    return Page(
        title=f"Read model {model}",
        section="migrations",
        template=f"{_OWN}migration.html",
        values=values,
        looks_again=pointer.phase in AT_WORK,
        acts=f"{_OWN}migration_acts.html" if pointer.phase in _SWITCHABLE | {Phase.SWITCHED} else "",
    )


#: Phases in which readers may be led to the new version.
_SWITCHABLE: Final = frozenset({Phase.VERIFIED, Phase.ROLLED_BACK})


def switch(visit: Visit, model: str) -> Page | str:
    """Let all readers use the new version."""
    return _act(visit, model, "switch", "migrate switch", Migration.switch)


def roll_back(visit: Visit, model: str) -> Page | str:
    """Let all readers use the former version again."""
    return _act(visit, model, "roll_back", "migrate rollback", Migration.roll_back)


def _act(visit: Visit, model: str, name: str, what: str, do: Callable[[Migration], ModelPointer]) -> Page | str:
    pointer = _read_pointer(visit, model)
    posted = read_form(visit.fields, visit.person, visit.link(name, model=model), visit.now)
    audit, now_seen = visit.view.stores.audit, _say_seen(pointer)
    if now_seen != posted.seen or pointer.target is None:
        # A second click finds the pointer as the first one left it.
        audit.check_new(posted.named)
        said = f"you saw {model} {posted.seen}; now it is {now_seen}: nothing was done, so decide again"
        return replace(show_migration(visit, model), status=409, notice=said)
    migration = Migration(READ_MODELS[model], pointer.target, _part(visit).stores.views)
    act = AuditedAct(posted.who, what, f"{model} {pointer.target}", posted.why)
    try:
        with audit.record(act, posted.named) as record:
            record.result = str(do(migration).phase)
    except MigrationRefusedError as error:
        return replace(show_migration(visit, model), status=409, notice=str(error))
    return visit.link("migration", model=model)


def _read_pointer(visit: Visit, model: str) -> ModelPointer:
    if model not in READ_MODELS:
        raise NotFound(f"there is no read model {model[:100]!r}")
    return _part(visit).stores.views.pointers.read(READ_MODELS[model])


def _say_seen(pointer: ModelPointer) -> str:
    return f"at version {pointer.current}, {pointer.phase}, with version {pointer.target} as its target"


def _row(pointer: ModelPointer, now: datetime) -> _ModelRow:
    return _ModelRow(pointer, say_next(pointer), pointer.stands(now))


def _read_rows(visit: Visit, pointer: ModelPointer) -> tuple[Sequence[StoredView], dict[str, Any] | None]:
    """Return a page of the current version, and the query of the page that follows it."""
    shard, _, key = visit.query.get("after", "").partition("|")
    version = f"{pointer.model}.{pointer.current}"
    after = ViewPlace(f"{version}|{shard}", key) if shard else None
    slot = _part(visit).stores.views.slots[pointer.slot]
    rows = slot.read_page(pointer.model, pointer.current, after, _MOST)
    if len(rows) < _MOST:
        return rows, None
    last = rows[-1].place
    known = {name: value for name, value in visit.query.items() if name != "after"}
    return rows, known | {"after": f"{last.partition.removeprefix(f'{version}|')}|{last.key}"}


def _part(visit: Visit) -> OrdersPart:
    found: OrdersPart = visit.view.parts["registration"]
    return found


def find_order(visit: Visit, text: str) -> Iterator[Hit]:
    """Yield the order of this id or number. Three requests at most, and none for a text that no order can have."""
    if _NAME.fullmatch(text) and (seen := _part(visit).stores.orders.look_up(text)) is not None:
        yield Hit(HitKind.ORDER, seen.order.order, str(describe_order(seen.order)["state"]), is_exact=True)


PAGES: Final = CapabilityPages(
    find=find_order,
    routes=(
        Route("/processes", "processes", show_processes),
        Route("/orders", "orders", show_orders),
        Route("/order/<order>", "order", show_order),
        Route("/seats", "seats", show_conferences),
        Route("/seats/<conference>", "conference", show_conference),
        Route("/migrations", "migrations", show_migrations),
        Route("/migration/<model>", "migration", show_migration),
        Route("/migration/<model>/switch", "switch", switch, "POST"),
        Route("/migration/<model>/rollback", "roll_back", roll_back, "POST"),
    ),
    sections=(("processes", "Processes"), ("orders", "Orders"), ("seats", "Seats"), ("migrations", "Migrations")),
    open=lambda stores, choice: OrdersPart(RegistrationStores(stores), choice),
)
