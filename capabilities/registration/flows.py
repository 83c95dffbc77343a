"""Builds registration from the stores of an installation: its stores, its flows, and the verbs of its functions."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any, Final, NamedTuple, cast

from capabilities.registration.access_codes import AccessCodes, WrongCodes
from capabilities.registration.conference_views import ConferenceViews, OrderViews, PriceList, read_number
from capabilities.registration.desk import ACCESS_CODE_HEADER, IDEMPOTENCY_KEY_HEADER, OrderDesk
from capabilities.registration.entities import AGENDA, HOMES, MEMENTOS, RegistrationChoice, seat_lane_names
from capabilities.registration.events import MIGRATION_STANDS_NEED, ORDER_STUCK_NEED
from capabilities.registration.order import AGGREGATE, NUMBER, OrderState, fold_order, order_home
from capabilities.registration.order_flows import GATE, OrderFlows, Starts
from capabilities.registration.order_messages import seats_home
from capabilities.registration.order_process import OrderProcess, OrderProcessState
from capabilities.registration.parked_orders import Landed, ParkedOrders
from capabilities.registration.public_messages import STARTS_QUEUE, TIMEOUTS_QUEUE, OrderRoutes
from capabilities.registration.roll_check import check_roll, first_answers, tell_place
from capabilities.registration.seat_flows import SeatCheck, SeatFlows, SkippedCommands, decide_command
from capabilities.registration.seats import Seats, SeatsState
from capabilities.registration.story import tell_process, tell_seats
from capabilities.registration.verbs import Registration
from capabilities.registration.views import CONFERENCE_MODEL, ORDER_MODEL, ShownModel, tell_unsettled
from shared.app import BuildSite, Stores
from shared.capability import DeadLetter, HttpAnswer, HttpCall
from shared.clock import Closing, all_tried
from shared.errors import NewerVersionError
from shared.grammar import NAME
from shared.ids import RangeGenerator
from shared.messages import Delivery
from shared.processes import (
    Agenda,
    Command,
    Fields,
    Home,
    Homes,
    HotNotes,
    Mementos,
    MementoStore,
    Pace,
    PaceLane,
    ProcessCore,
    Receiver,
    TableHomes,
    TimeoutRow,
    Writer,
    begin_in_time,
    decode_events,
    read_known,
    restore_process,
)
from shared.readmodels import KeptAnswers, Projector, ViewStores
from shared.telemetry import events, tell
from shared.topology import GUARD


class OrderSources(NamedTuple):
    """The stores that the flows use beside those that every installation has."""

    homes: Homes
    agenda: Agenda
    numbers: RangeGenerator
    codes: AccessCodes
    conferences: ConferenceViews
    #: The read models, which tell what a parked event has caused.
    models: tuple[ShownModel, ...]
    wrong_codes: WrongCodes


def make_process(choice: RegistrationChoice) -> OrderProcess:
    """Return the process manager of orders, as this installation is set."""
    return OrderProcess(window=choice.reservation, buffer=choice.buffer, most_seats=choice.seats_per_order)


def build_verbs(stores: Stores, choice: RegistrationChoice, sources: OrderSources) -> Registration:
    """Build the verbs of registration. The gates of this installation then start orders too."""
    clock, agenda, homes = stores.clock, sources.agenda, sources.homes
    routes = OrderRoutes(seat_lane_names(choice.seat_lanes))
    process = make_process(choice)
    core: ProcessCore[OrderProcessState] = ProcessCore(
        process,
        AGGREGATE,
        homes,
        agenda,
        routes,
        stores.connections,
        clock,
        hints=TIMEOUTS_QUEUE,
        lateness=choice.buffer,
        resume=lambda home, head: orders.resume(home, head),  # noqa: PLW0108 - orders are made from the core
        note_stuck=lambda home, found: stores.tick_needs.judge(
            ORDER_STUCK_NEED, home.removeprefix(order_home("")), found
        ),
    )
    telemetry, skipped = stores.connections.telemetry, SkippedCommands(stores.connections.telemetry)
    mementos: Mementos[SeatsState] = Mementos(homes, Seats(), choice.snapshot_events)
    landed = Landed(homes, mementos, process, sources.codes, sources.models, clock)
    parked = ParkedOrders(stores.parking, stores.put_back, core.publisher, routes, landed)
    writer: Writer[SeatsState, Command] = Writer(
        homes, Seats(), mementos, partial(decide_command, clock=clock, skipped=skipped)
    )
    notes = HotNotes(agenda, clock, core.removals)
    seats = SeatFlows(
        Receiver(homes, mementos, writer, notes, core.outgoing), routes, core.sender, parked, skipped, clock
    )
    orders = OrderFlows(
        core.runtime,
        process,
        homes,
        numbers=sources.numbers,
        codes=sources.codes,
        prices=PriceList(sources.conferences, mementos),
        held=stores.held_work,
        clock=clock,
        note_wrong=sources.wrong_codes.note,
    )
    starts = Starts(core.runtime, process, homes, agenda, core.publisher, core.removals, clock)
    stores.held_work.register(str(STARTS_QUEUE), starts.send)
    return Registration(
        orders,
        seats,
        starts,
        core=core,
        parked=parked,
        check=SeatCheck(homes, mementos, clock, stores.tick_needs),
        telemetry=telemetry,
        clock=clock,
        parts=(notes, core),
    )


#: The sequence of the numbers of orders.
ORDER_NUMBERS: Final = "orders"
#: Every timeout is due before this.
NEVER: Final = datetime(9000, 1, 1, tzinfo=UTC)
#: Seconds of the lock of a batch, and those that a message alone may rest: the host renews its lock. A rest takes a part.
_LOCK, _RENEWED = GUARD.total_seconds(), 60.0
#: Ranges of events between two checks of the clock.
_AT_ONCE: Final = 256


class RegistrationStores:
    """The tables and containers of registration. Making them makes no request."""

    def __init__(self, stores: Stores) -> None:
        self.stores, self.clock = stores, stores.clock
        table = stores.connections.tables.get_table_client
        self.homes = TableHomes(table(HOMES), MementoStore(stores.container(MEMENTOS)))
        self.agenda = Agenda(table(AGENDA))
        self.views = ViewStores.connect(
            stores.connections,
            self.homes,
            self.clock,
            lambda model, found: stores.tick_needs.judge(MIGRATION_STANDS_NEED, model, found, is_grave=False),
        )
        self.numbers = RangeGenerator(stores.sequence(ORDER_NUMBERS), prefetch=False)
        self.codes = AccessCodes(self.clock)
        self.models = tuple(ShownModel(one, self.views.reader(one)) for one in (ORDER_MODEL, CONFERENCE_MODEL))
        orders, conferences = (one.reader for one in self.models)
        self.orders = OrderViews(orders, self.homes, self.agenda, self.clock)
        self.conferences = ConferenceViews(conferences, KeptAnswers(self.clock), stores.connections.telemetry)

    def find_fields(self, order: str) -> Fields | None:
        """Return the fields of the head of an order's home, in one request. None: there is no such order."""
        head = self.homes.read_head(order_home(order))
        return head.fields if head else None

    def load_order(self, typed: str) -> Home | None:
        """Return the home of the order with this id or this number, or None."""
        number = read_number(typed)
        key = order_home(typed) if number is None else self.agenda.find(number)
        return self.homes.load(key) if key and NAME.fullmatch(typed) else None

    def find_numbered(self, number: int) -> str | None:
        """Return the id of the order with this number, in one request. None: it is not known here."""
        home = self.agenda.find(number)
        return home.removeprefix(order_home("")) if home else None

    def tell_order(self, typed: str, choice: RegistrationChoice) -> dict[str, Any] | None:
        """Return the causal story of the order with this id or this number, or None."""
        home = self.load_order(typed)
        if home is None:
            return None
        state, unsent = restore_process(make_process(choice), home)
        return tell_process(home, state, unsent, self.homes.read_sendings(home.key), self.clock.now())

    def tell_seats(self, conference: str) -> dict[str, Any] | None:
        """Return the balance of a conference, or None."""
        found = self.homes.load_proven(seats_home(conference)) if NAME.fullmatch(conference) else None
        return tell_seats(*found, self.clock.now()) if found else None

    def tell_why(self, conference: str, typed: str) -> dict[str, Any] | None:
        """Return the place of an order on the roll of its gate, and how the seats went. None: it has no such place."""
        home, seats = self.load_order(typed), self.homes.load(seats_home(conference))
        gate = home.head.fields.get(GATE) if home else None
        if home is None or seats is None or gate is None:
            return None
        order = home.key.removeprefix(order_home(""))
        for epoch in self.stores.rolls.epochs(str(gate)):
            roll = self.stores.rolls.find(str(gate), epoch)
            if roll is None or all(place.id != order for place in roll.places):
                continue
            outcome = check_roll([place.id for place in roll.places], first_answers(seats.events))
            wanted = reduce(fold_order, home.events, cast("OrderState | None", None))
            return {
                "order": order,
                "number": home.head.fields[NUMBER],
                **tell_place(order, roll, outcome),
                "wanted": dict(wanted.requested) if wanted else {},
            }
        return None

    def read_timeouts(self, until: datetime = NEVER) -> list[TimeoutRow]:
        """Return the earliest timeout of each order, the first at the top, up to this time. One request per shard.

        A message that came twice leaves a second row for its order until that is due.
        """
        rows = [row for shard in range(self.agenda.shards) for row in self.agenda.read_due(shard, until).timeouts]
        first: dict[str, TimeoutRow] = {}
        for row in sorted(rows, key=lambda row: row.due):
            first.setdefault(row.home, row)
        return list(first.values())


def find_numbered(stores: Stores, number: int) -> str | None:
    """Return the id of the order with this number. None: it is not known here."""
    return RegistrationStores(stores).find_numbered(number)


class RegistrationPart(Closing):
    """Registration in one process: a verb for each kind of message. Several threads may call each verb."""

    def __init__(self, site: BuildSite[RegistrationChoice]) -> None:
        """Build it. Makes no request."""
        stores, choice = site.stores, site.choice
        own = RegistrationStores(stores)
        # One for both ways of a customer, so that an operator hears of them together.
        wrong = WrongCodes(own.clock, stores.connections.telemetry)
        sources = OrderSources(own.homes, own.agenda, own.numbers, own.codes, own.conferences, own.models, wrong)
        self.verbs = build_verbs(stores, choice, sources)
        self.desk = OrderDesk(
            self.verbs.orders,
            own.orders,
            own.conferences,
            own.codes,
            own.find_fields,
            clock=own.clock,
            note_wrong=wrong.note,
        )
        self._clock, self._needs = own.clock, stores.tick_needs
        self._pace = Pace(stores.connections.pushback, own.clock, time.sleep)
        self._orders, self._conferences = own.views.projector(ORDER_MODEL), own.views.projector(CONFERENCE_MODEL)

    async def place_order(self, call: HttpCall) -> HttpAnswer:
        """Answer a new order."""
        return await self.desk.place(call.body, call.headers.get(IDEMPOTENCY_KEY_HEADER))

    async def change_order(self, call: HttpCall) -> HttpAnswer:
        """Answer a change of an order's seats."""
        name, code = call.places["order"], call.headers.get(ACCESS_CODE_HEADER, "")
        return await self.desk.change(name, code, call.headers.get("If-Match"), call.body)

    async def show_order(self, call: HttpCall) -> HttpAnswer:
        """Show an order to its customer, by its id or its number, and wait for news of it."""
        name, code = call.places["order"], call.headers.get(ACCESS_CODE_HEADER, "")
        return await self.desk.show(name, code, call.headers.get("If-None-Match"), call.query)

    async def show_conference(self, call: HttpCall) -> HttpAnswer:
        """Show which seats a conference has left."""
        return await self.desk.show_conference(call.places["conference"], call.headers.get("If-None-Match"))

    def take(self, delivery: Delivery) -> None:
        """Act on a customer's message, from the queue `orders`."""
        try:
            self.verbs.take(delivery)
        except NewerVersionError as error:
            tell(events.NEWER_VERSION, found=str(error))
            raise

    def park(self, letters: Sequence[DeadLetter]) -> None:
        """Park the dead letters of all bus entities of registration."""
        self.verbs.park(letters)

    def take_from_bus(self, delivery: Delivery) -> None:
        """Act on a message of a shop or a bank, from their queues of the bus."""
        with self._pace(PaceLane.PROCESSES, _RENEWED):
            self.verbs.take(delivery)

    def start(self, bodies: Sequence[bytes]) -> None:
        """Start the held orders that a gate released."""
        with self._pace(PaceLane.PROCESSES, _LOCK):
            self.verbs.starts.take(bodies)

    def sell(self, bodies: Sequence[bytes]) -> None:
        """Obey the commands to the seats of one conference."""
        with self._pace(PaceLane.FIRST, _LOCK):
            self.verbs.seats.sell(bodies)

    def hear(self, bodies: Sequence[bytes]) -> None:
        """Give the answers of seats to the processes of their orders."""
        with self._pace(PaceLane.PROCESSES, _LOCK):
            self.verbs.hear(bodies)

    def expire(self, bodies: Sequence[bytes]) -> None:
        """End the orders whose window is over."""
        with self._pace(PaceLane.FIRST, _LOCK):
            self.verbs.expire(bodies)

    def project_orders(self, bodies: Sequence[bytes]) -> None:
        """Bring the view of orders up to these events."""
        self._project(self._orders, bodies)
        # Every event of every order comes here, one by one or many in a message.
        tell_unsettled(bodies, self._needs)

    def project_conferences(self, bodies: Sequence[bytes]) -> None:
        """Bring the view of conferences up to these events."""
        self._project(self._conferences, bodies)

    def follow(self, until: float) -> None:
        """Do what is due, and what a crash left. Begin nothing after `until`, in the clock's monotonic seconds."""
        # One shard that fails stops no other. The first error is raised at the end, and the tick logs it.
        all_tried(self.verbs.follow(until), lambda _error: None)

    def check_seats(self, until: float) -> None:
        """Tell of seats that an operator must look at. Begin nothing after `until`."""
        self.verbs.check.run(until)

    def _project(self, projector: Projector, bodies: Sequence[bytes]) -> None:
        with self._pace(PaceLane.READ_MODELS, _LOCK):
            known, newer = read_known(decode_events, bodies)
            for some in begin_in_time([one for ranges in known for one in ranges], _AT_ONCE, self._clock):
                projector.project(some)
            if newer is not None:
                raise newer

    def close(self) -> None:
        """End the threads that answer customers, and the connections to the bus."""
        self.desk.close()
        self.verbs.close()
