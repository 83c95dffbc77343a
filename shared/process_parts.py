"""A process of a capability of its own: its entities, and the object with its verbs. So it writes its decisions alone.

Its entities follow from its name. For `returns`:

- the storage queue `returns` and the bus queue `returns-answers`, of messages to it;
- the bus queue `returns-commands` and the topic `returns-events`, of its commands and events;
- the bus queues `returns-timeouts` of hints, and `returns-dead` of dead letters;
- the tables `returnshomes` and `returnsagenda`, and the container `returns-mementos`.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar

from shared.app import BuildSite, Stores
from shared.azure import Destination
from shared.capability import DeadLetter, TickStep, Trigger, bus, bus_delivery, dead_letters, queue
from shared.clock import Closing, all_tried
from shared.errors import DecisionFailedError, RefusedError
from shared.grammar import NAME
from shared.messages import Delivery, unwrap
from shared.parked import Claim, Entry, EntryState, Stage, content_key
from shared.processes import (
    Agenda,
    Case,
    Command,
    Home,
    Incoming,
    MementoStore,
    Process,
    ProcessCore,
    ReplyClass,
    TableHomes,
    make_draft,
    plain_parcel,
    restore_process,
)
from shared.refusals import DeliveryReason, Reason, ReasonCode, refuse
from shared.topology import BusEntities, BusQueue, DeliveryRules, Entities, Subscription, Topic

State = TypeVar("State")
#: Takes a body and the time, and returns the home and its message. Raises RefusedError.
ReadMessage: TypeAlias = Callable[[bytes, datetime], tuple[str, Incoming]]
#: An agenda that is read in one request of a tick.
_SHARDS: Final = 1
_DUPLICATES: Final = timedelta(minutes=10)
#: By so much the timeouts of a process may be late.
_LATENESS: Final = timedelta(minutes=1)
#: An outage must not make dead letters of healthy messages.
_MANY: Final = 1000


def process_entities(name: str, subscriptions: Sequence[str] = ()) -> tuple[Entities, ...]:
    """Return every entity of a process, and the subscriptions of its events. Only letters and digits make a name."""
    if not (NAME.fullmatch(name) and name.isalnum() and name[0].isalpha() and len(name) <= 40):
        raise ValueError(f"the process is called {name!r}; use up to 40 of a-z and 0-9, a letter first")
    dead = f"{name}-dead"
    rules = DeliveryRules(max_delivery_count=_MANY, forward_dead_letters=dead)
    hints = DeliveryRules(max_delivery_count=_MANY, time_to_live=timedelta(hours=1), forward_dead_letters=dead)
    return (
        Entities(
            name,
            queues=(name,),
            containers=(f"{name}-mementos",),
            tables=(f"{name}homes", f"{name}agenda"),
            bus=BusEntities(
                queues=(
                    # First: Service Bus refuses to forward to a queue that is not there.
                    BusQueue(dead, DeliveryRules(max_delivery_count=_MANY)),
                    BusQueue(f"{name}-timeouts", hints, duplicate_window=_DUPLICATES),
                    # No duplicate detection: a replay must pass, and a generation tells what came before.
                    BusQueue(f"{name}-answers", rules),
                    BusQueue(f"{name}-commands", rules),
                ),
                topics=(
                    Topic(
                        f"{name}-events",
                        tuple(Subscription(one, (), rules) for one in subscriptions),
                        duplicate_window=_DUPLICATES,
                    ),
                ),
            ),
        ),
    )


def process_triggers(name: str) -> tuple[Trigger, ...]:
    """Return the functions of a process. Each calls a verb of `ProcessParts`."""
    return (
        queue(f"take_{name}", name, "take"),
        bus_delivery(f"hear_{name}", f"{name}-answers", "take"),
        bus(f"expire_{name}", f"{name}-timeouts", "expire"),
        dead_letters(f"park_dead_{name}", f"{name}-dead", "park"),
    )


def process_tick(name: str) -> tuple[TickStep, ...]:
    """Return the steps of the tick for a process."""
    return (TickStep("follow", f"what is due on the agenda of {name}", _SHARDS),)


class _Routes:
    def __init__(self, name: str) -> None:
        self._events, self._commands = Destination("topic", f"{name}-events"), Destination("bus", f"{name}-commands")

    def topic_of(self, _home: str) -> tuple[Destination, str]:
        return self._events, ""

    def queue_of(self, _command: Command) -> Destination:
        return self._commands


class ProcessHomes(Generic[State]):
    """The homes and the agenda of a process, for its pages and commands too. Making them makes no request."""

    def __init__(self, stores: Stores, name: str, process: Process[State]) -> None:
        table = stores.connections.tables.get_table_client
        self.homes = TableHomes(table(f"{name}homes"), MementoStore(stores.container(f"{name}-mementos")))
        self.agenda = Agenda(table(f"{name}agenda"), _SHARDS)
        self._process = process

    def find(self, home: str) -> tuple[State, Home] | None:
        """Return the state of a home and its events, or None: there is no such home."""
        found = self.homes.load(home) if NAME.fullmatch(home) else None
        return None if found is None else (restore_process(self._process, found)[0], found)

    def read_waiting(self, until: datetime) -> list[tuple[str, datetime]]:
        """Return the homes that have a timeout up to this time, each with its due time, the first at the top. One request."""
        return [(row.home, row.due) for row in self.agenda.read_due(0, until).timeouts]


class ProcessParts(Closing, Generic[State]):
    """A process in one process of the app, with a verb for each of its triggers. Several threads may call each verb."""

    def __init__(
        self, site: BuildSite[Any], name: str, process: Process[State], read: ReadMessage, *, unexpected: ReasonCode
    ) -> None:
        """Build it, and register its stage of parking. `unexpected` is the reason of an answer to no command."""
        stores = site.stores
        own = ProcessHomes(stores, name, process)
        self._name, self._process, self._read, self._unexpected = name, process, read, unexpected
        self._homes, self._clock = own.homes, stores.clock
        self._parking, self._put_on_storage = stores.parking, stores.put_back
        self._core: ProcessCore[State] = ProcessCore(
            process,
            name,
            own.homes,
            own.agenda,
            _Routes(name),
            stores.connections,
            stores.clock,
            hints=Destination("bus", f"{name}-timeouts"),
            lateness=_LATENESS,
        )
        self._parking.stages.register(
            Stage(
                name=name,
                reads=lambda queue: queue == name,
                identify=self._claim,
                put_back=self._put_back,
                has_landed=self._has_landed,
                is_read_first=True,
            )
        )

    def take(self, delivery: Delivery) -> None:
        """Give a message to its process. One that no further try helps is parked."""
        try:
            handled = self._core.runtime.handle([self._case(delivery.body)])
            handled.check()
            if handled.outcomes[0].reply is ReplyClass.UNEXPECTED:
                message = handled.outcomes[0].case.message
                raise refuse(
                    self._unexpected,
                    f"home {handled.outcomes[0].case.home!r} asked nothing of generation {message.generation}",
                )
        except (DecisionFailedError, RefusedError) as error:
            self._parking.park(self._name, delivery, error)

    def expire(self, bodies: Sequence[bytes]) -> None:
        """Act on the timeouts that are due, from messages of the queue of hints."""
        self._core.expire(bodies)

    def park(self, letters: Sequence[DeadLetter]) -> None:
        """Park dead letters of the bus."""
        for letter in letters:
            name = letter.entity.partition("/")[0] or f"{self._name}-dead"
            to = Destination("topic" if name == f"{self._name}-events" else "bus", name)
            found = f"the bus moved it from {letter.entity!r} to its dead letters: {letter.reason[:500]}"
            delivery = Delivery(queue=str(to), message_id=letter.message_id, body=letter.body, count=1)
            self._parking.park(self._name, delivery, refuse(DeliveryReason.DEAD_LETTERED, found))

    def follow(self, until: float) -> None:
        """Do what is due, and what a crash left. Begin nothing after `until`, in the clock's monotonic seconds."""
        all_tried(self._core.follow(until), lambda _error: None)

    def close(self) -> None:
        """Remove the rows that are done, and close the connections to the bus."""
        self._core.close()

    def _case(self, body: bytes) -> Case:
        home, message = self._read(unwrap(body), self._clock.now())
        if not NAME.fullmatch(home):
            raise refuse(Reason.BAD_NAME, f"the home is called {home[:100]!r}")
        return Case(home=home, message=message)

    def _claim(self, delivery: Delivery) -> Claim:
        # The same bytes on another queue are another message: its replay goes to that queue.
        return Claim(key=content_key(self._name, f"{delivery.queue}|".encode() + delivery.body))

    def _has_landed(self, entry: Entry) -> bool:
        """Return true if the process would change nothing by this message, because it came before.

        Of a message to others: if the bus has it again. Only its receiver knows its effect, and parks it again by giving it up.
        """
        if entry.queue not in {self._name, f"bus:{self._name}-answers"}:
            return entry.state is EntryState.REPLAYED
        try:
            case = self._case(self._parking.table.body(entry))
        except RefusedError:
            return False
        home = self._homes.load(case.home)
        try:
            draft = make_draft(self._process, self._name, [case], home, 0, self._clock.now())
        except Exception:  # noqa: BLE001 - of the process, at a message that failed before
            return False
        (outcome,) = draft.outcomes
        return outcome.error is None and outcome.reply in {ReplyClass.DUPLICATE, ReplyClass.STALE}

    def _put_back(self, entry: Entry, message: bytes) -> None:
        if entry.queue == self._name:
            self._put_on_storage(entry, message)
            return
        # The bus drops a message whose id a topic had within ten minutes. This one must pass.
        id_ = f"{entry.key}~{entry.replays}"
        self._core.publisher.send([plain_parcel(Destination.parse(entry.queue), id_, message)])
