"""Builds the flows of registration from the stores of an installation. It makes no request."""

from functools import partial
from typing import Final, NamedTuple

from shared.app.stores import Stores
from shared.azure import BusSender
from shared.eventsourcing import Homes, Mementos, Writer
from shared.ids import RangeGenerator
from shared.messaging import BusPublisher, Command
from shared.parts import RegistrationChoice, seat_lane_names
from shared.processes import Agenda, DueHints, Follower, HotNotes, Outgoing, Receiver, Removals, Runtime
from shared.registration import (
    AGGREGATE,
    STARTS_QUEUE,
    TIMEOUTS_QUEUE,
    AccessCodes,
    ConferenceViews,
    Landed,
    OrderFlows,
    OrderProcess,
    OrderProcessState,
    OrderRoutes,
    ParkedOrders,
    PriceList,
    Registration,
    SeatCheck,
    SeatFlows,
    Seats,
    SeatsState,
    ShownModel,
    SkippedCommands,
    Starts,
    WrongCodes,
    decide_command,
)

#: Senders to one entity at a time.
_MOST_SENDERS: Final = 16


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
    sender = BusSender(stores.connections, most=_MOST_SENDERS)
    routes = OrderRoutes(seat_lane_names(choice.seat_lanes))
    publisher = BusPublisher(sender, stores.connections.pushback, _MOST_SENDERS)
    outgoing, removals = Outgoing(publisher, routes), Removals(agenda)
    process = make_process(choice)
    runtime: Runtime[OrderProcessState] = Runtime(
        process,
        AGGREGATE,
        homes,
        agenda,
        outgoing,
        clock=clock,
        remove=removals,
        hint=DueHints(sender, TIMEOUTS_QUEUE, choice.buffer),
    )
    telemetry, skipped = stores.connections.telemetry, SkippedCommands(stores.connections.telemetry)
    mementos: Mementos[SeatsState] = Mementos(homes, Seats(), choice.snapshot_events)
    landed = Landed(homes, mementos, process, sources.codes, sources.models, clock)
    parked = ParkedOrders(stores.parking, stores.put_back, publisher, routes, landed)
    writer: Writer[SeatsState, Command] = Writer(
        homes, Seats(), mementos, partial(decide_command, clock=clock, skipped=skipped)
    )
    notes = HotNotes(agenda, clock, removals)
    seats = SeatFlows(Receiver(homes, mementos, writer, notes, outgoing), routes, sender, parked, skipped, clock)
    orders = OrderFlows(
        runtime,
        process,
        homes,
        numbers=sources.numbers,
        codes=sources.codes,
        prices=PriceList(sources.conferences, mementos),
        held=stores.held_work,
        clock=clock,
        note_wrong=sources.wrong_codes.note,
    )
    starts = Starts(runtime, agenda, publisher, removals, clock)
    stores.held_work.register(str(STARTS_QUEUE), starts.send)
    follower = Follower(agenda, homes, outgoing, clock, handle=runtime.handle, resume=orders.resume)
    return Registration(
        orders,
        seats,
        starts,
        runtime=runtime,
        follower=follower,
        parked=parked,
        check=SeatCheck(homes, mementos, clock),
        telemetry=telemetry,
        clock=clock,
        parts=(notes, removals, sender),
    )
