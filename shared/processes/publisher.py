"""Sends parcels: streams in parallel, in order inside one, and several parts in one message where they meet.

Nothing waits when the bus is idle. While a transfer is under way, what comes for the same sessions gathers behind it, and
the next transfer takes all of it.

What is sent in bundles: a part is made into bytes once, and several parts of one receiver become one message.

Who is slowed when the namespace pushes back: the lanes of receivers, and how long each rests after its work.

The host's own settings are static. So a function rests in proportion to its work, by the share of its lane.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from math import sqrt
from threading import Condition
from typing import Final, Protocol, TypeVar
from zlib import crc32

import msgspec

from shared.azure import FAILURES, BusMessage, Destination, Pushback, trying_once
from shared.clock import Clock
from shared.errors import BudgetSpentError, NewerVersionError, NotPublishedError
from shared.grammar import bus_name
from shared.processes.bodies import MOST_COMMANDS, Command, EventRange, bundle_id, split_range
from shared.telemetry import events, tell
from shared.topology import BATCH_SECONDS

#: Bytes of the parts of one message, and of one transfer. The bus's cheapest tier takes 256 KB with all properties.
MOST_BYTES: Final = 200_000
#: Streams in one message.
MOST_STREAMS: Final = 100
#: Events of one stream in one part: some hundred bytes each.
_MOST_EVENTS: Final = 100
_COMMANDS: Final = b'{"sluice":{"kind":"commands","v":1,"commands":['
#: How each form of bundle begins and ends, and its largest number of parts.
_FORMS: Final = {
    "events": (b'{"sluice":{"kind":"events","v":1,"streams":[', b"]}}", MOST_STREAMS),
    "commands": (_COMMANDS, b"]}}", MOST_COMMANDS),
    # One part is all commands of the message: whoever sent them knows which ones came together.
    "bundle": (_COMMANDS, b"]}}", 1),
    # A whole message, as its sender wrote it.
    "plain": (b"", b"", 1),
}
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """One part of a message. Parcels of one destination and session are sent in the order in which they were given."""

    to: Destination
    #: Empty: the message has none.
    session: str
    form: str
    id: str
    content: bytes
    #: Names of properties that are true on the message, by which subscriptions filter.
    marks: frozenset[str] = frozenset()


def event_parcels(topic: Destination, session: str, events: EventRange) -> Iterator[Parcel]:
    """Yield the parcels of a range of events."""
    for part in split_range(events, _MOST_EVENTS):
        yield Parcel(
            to=topic,
            session=session,
            form="events",
            id=f"{part.home} {part.first} {part.last}",
            content=_encoder.encode(part),
            marks=frozenset(event.kind for event in part.events),
        )


def command_parcel(queue: Destination, command: Command) -> Parcel:
    """Return the parcel of a command. Its session is its receiver."""
    name = command.id if command.attempt == 1 else f"{command.id}~{command.attempt}"
    return Parcel(to=queue, session=command.to, form="commands", id=name, content=_encoder.encode(command))


def bundle_parcel(queue: Destination, commands: Sequence[Command], session: str = "") -> Parcel:
    """Return the parcel of commands that are one message, whatever goes along with it."""
    content = b",".join(map(_encoder.encode, commands))
    return Parcel(
        to=queue, session=session, form="bundle", id=bundle_id([each.id for each in commands]), content=content
    )


def plain_parcel(queue: Destination, id_: str, message: bytes) -> Parcel:
    """Return the parcel of a whole message, on a queue without sessions."""
    return Parcel(to=queue, session="", form="plain", id=id_, content=message)


@dataclass(frozen=True, slots=True)
class ReceiverLanes:
    """The queues with sessions of one kind of receiver: each receiver has its lane, by its name."""

    queues: Sequence[str]

    def of(self, receiver: str) -> Destination:
        """Return the queue of a receiver."""
        return Destination("bus", self.queues[crc32(receiver.encode()) % len(self.queues)])


def bundles(parcels: Iterable[Parcel]) -> Iterator[list[Parcel]]:
    """Yield the parcels of one destination, session and form by message."""
    some: list[Parcel] = []
    size = 0
    for parcel in parcels:
        most = _FORMS[parcel.form][2]
        is_other = bool(some) and (some[0].session, some[0].form) != (parcel.session, parcel.form)
        if some and (is_other or len(some) == most or size + len(parcel.content) > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(parcel)
        size += len(parcel.content)
    if some:
        yield some


def message_of(bundle: Sequence[Parcel]) -> BusMessage:
    """Return the message of a bundle. Its id depends on every part: the bus drops a second message of one id."""
    first = bundle[0]
    begin, end, _ = _FORMS[first.form]
    return BusMessage(
        body=b"".join((begin, b",".join(each.content for each in bundle), end)),
        session=bus_name(first.session) or None,
        id=bus_name(bundle_id([each.id for each in bundle])),
        properties=dict.fromkeys(sorted(frozenset().union(*(each.marks for each in bundle))), True),
    )


#: Transfers to one entity at the same time, if the bus bears them.
MOST_TRANSFERS: Final = 16
#: Messages in one transfer.
MOST_MESSAGES: Final = 20


class Sender(Protocol):
    """Sends messages in one transfer, all or nothing. Raises FAILURES. Several threads may send."""

    def send(self, to: Destination, messages: Sequence[BusMessage]) -> None:
        """Send the messages."""
        ...


@dataclass(slots=True, eq=False)
class _Item:
    """A parcel that waits, is under way, or is done."""

    parcel: Parcel
    is_done: bool = False
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class _Channel:
    """The parcels of one session, of which at most one transfer is under way."""

    waiting: deque[_Item] = field(default_factory=deque)
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class _Load:
    """One transfer, and the channels that wait for it."""

    to: Destination
    channels: dict[tuple[Destination, str], _Channel]
    items: list[_Item]


class BusPublisher:
    """Sends by the senders of one process. Several threads may use it."""

    def __init__(self, sender: Sender, pushback: Pushback, most: int = MOST_TRANSFERS) -> None:
        """Take the senders, as many as `most`. `pushback` tells how many of them the bus bears."""
        self._sender, self._pushback, self._most = sender, pushback, most
        self._changed = Condition()
        self._channels: dict[tuple[Destination, str], _Channel] = {}
        self._under_way: Counter[Destination] = Counter()

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Send all parcels, and return when the bus has them. Raises NotPublishedError if it may not have all."""
        mine = [_Item(parcel) for parcel in parcels]
        with self._changed:
            for item in mine:
                self._channel_of(item.parcel).waiting.append(item)
        while (load := self._next_load(mine)) is not None:
            self._transfer(load)
        if failed := [item for item in mine if item.error is not None]:
            raise NotPublishedError(_tell(failed)) from failed[0].error

    def _channel_of(self, parcel: Parcel) -> _Channel:
        return self._channels.setdefault((parcel.to, parcel.session), _Channel())

    def _next_load(self, mine: Sequence[_Item]) -> _Load | None:
        """Wait until one of these parcels can go, and return its load. None: all of them are done."""
        with self._changed:
            while undone := [item for item in mine if not item.is_done]:
                for item in undone:
                    if (load := self._take_load(item.parcel)) is not None:
                        return load
                # Another thread has them under way, or the bus bears no further transfer. Both end with a notice.
                self._changed.wait()
            return None

    def _take_load(self, parcel: Parcel) -> _Load | None:
        to = parcel.to
        if self._channel_of(parcel).is_busy or self._under_way[to] >= self._count_transfers(to):
            return None
        # The parcel's own session first: it must get on. Then what waits for the same entity and is not under way.
        own_key = to, parcel.session
        others = (key for key, each in self._channels.items() if key[0] == to and key != own_key and not each.is_busy)
        load, room, messages = _Load(to, {}, []), MOST_BYTES, 0
        for key in (own_key, *others):
            channel = self._channels[key]
            for bundle in bundles([item.parcel for item in channel.waiting]):
                room -= sum(len(each.content) for each in bundle)
                if messages == MOST_MESSAGES or (load.items and room < 0):
                    break
                load.items.extend(channel.waiting.popleft() for _ in bundle)
                messages += 1
                load.channels[key] = channel
        for channel in load.channels.values():
            channel.is_busy = True
        self._under_way[to] += 1
        return load

    def _count_transfers(self, to: Destination) -> int:
        """Return how many transfers to an entity may be under way."""
        borne = self._pushback.limit(self._most, self._under_way[to], _resource(to))
        # The bus counts messages. What waits for one transfer goes into fewer and larger ones.
        return 1 if self._pushback.is_alone(to.name) else borne

    def _transfer(self, load: _Load) -> None:
        # An error that nobody expects must not leave the other callers waiting.
        error: Exception | None = RuntimeError("the transfer ended without an answer")
        try:
            messages = [message_of(bundle) for bundle in bundles([item.parcel for item in load.items])]
            self._sender.send(load.to, messages)
            error = None
        except FAILURES as failure:
            error = failure
            self._pushback.ease(_resource(load.to), 1 / self._most)
        finally:
            with self._changed:
                for item in load.items:
                    item.is_done, item.error = True, error
                for key, channel in load.channels.items():
                    channel.is_busy = False
                    if not channel.waiting:
                        del self._channels[key]
                self._under_way[load.to] -= 1
                self._changed.notify_all()


def _resource(to: Destination) -> str:
    return f"bus/{to.name}"


def _tell(failed: Sequence[_Item]) -> str:
    names = sorted({str(item.parcel.to) for item in failed})
    return (
        f"could not send {len(failed)} parts to {', '.join(names)} ({type(failed[0].error).__name__}), the first is "
        f"{failed[0].parcel.id!r}: all of them are stored, and the tick sends them"
    )


#: The resource whose governor says how much the namespace bears.
_NAMESPACE: Final = "bus"
#: The part of a lock that a rest takes at most: the batch is completed only after it.
_MOST_OF_LOCK: Final = 1 / 3
#: The part of a lock that something newer rests before it is given back.
_REST_OF_NEWER: Final = 1 / 2


_Part = TypeVar("_Part")


def begin_in_time(parts: Sequence[_Part], at_once: int, clock: Clock) -> Iterator[Sequence[_Part]]:
    """Yield some parts of a batch at a time. Raises BudgetSpentError for those that it has no time to begin."""
    until = clock.monotonic() + BATCH_SECONDS
    for begin in range(0, len(parts), at_once):
        if clock.monotonic() >= until:
            raise BudgetSpentError(
                f"could not begin {len(parts) - begin} of {len(parts)} parts of a batch within {BATCH_SECONDS:.0f} s: "
                "they come again, and what was done changes nothing"
            )
        yield parts[begin : begin + at_once]


class PaceLane(Enum):
    """The receivers by how soon their work is needed. Each never falls below a floor."""

    #: Starts of processes, answers to them, and acts of people.
    FIRST = "first"
    PROCESSES = "processes"
    READ_MODELS = "read_models"


def share(lane: PaceLane, bearable: float) -> float:
    """Return the part of the time in which a lane works, when the namespace bears this share of the full rate."""
    if lane is PaceLane.FIRST:
        return max(0.5, sqrt(bearable))
    return max(0.25, bearable) if lane is PaceLane.PROCESSES else max(0.1, bearable**2)


def rest_after(work: float, share: float, lock: float) -> float:
    """Return the seconds to rest after so many seconds of work, so that the lane works for its share of the time."""
    return min(work * (1 / share - 1), lock * _MOST_OF_LOCK)


@dataclass(frozen=True, slots=True)
class Pace:
    """Rests after the work of a batch, as long as the namespace pushes back, and after something newer."""

    pushback: Pushback
    clock: Clock
    sleep: Callable[[float], object]

    def share(self, lane: PaceLane) -> float:
        """Return the share of a lane now."""
        governor = self.pushback.governors().get(_NAMESPACE)
        return share(lane, governor.share if governor else 1.0)

    @contextmanager
    def __call__(self, lane: PaceLane, lock: float) -> Iterator[None]:
        """Enter around the work of a batch whose lock lasts so many seconds."""
        began_at = self.clock.monotonic()
        try:
            with trying_once():
                yield
        except NewerVersionError as error:
            # The bus delivers it again at once, and a newer instance may take minutes.
            tell(events.NEWER_VERSION, found=str(error))
            self.sleep(lock * _REST_OF_NEWER)
            raise
        except Exception:
            # It comes again at once: so an outage uses up no more than one delivery in this time.
            if (left := began_at + BATCH_SECONDS - self.clock.monotonic()) > 0:
                self.sleep(left)
            raise
        rest = rest_after(self.clock.monotonic() - began_at, self.share(lane), lock)
        if rest > 0:
            self.sleep(rest)
