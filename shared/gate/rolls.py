"""The order in which held orders start: one roll for each opening of a gate that holds some. It is made once, and stays.

By arrival: storage's own time of the held row, then the number. Neither the id nor the number alone is an order: the
sender chooses the id, and each process draws its numbers in ranges. Or by lottery, from a random seed whose hash was published
before.

The order of the writes: the pointer by which the roll goes one day, the roll, the line in the audit, the starts, then
the held rows go. The first roll of an opening stays, and every releaser serves that one. What is held after it was made
comes behind it, by arrival. A releaser that ended needs no place to go on from: the rows that are there, in the order of
the roll, are what is left.
"""

import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import msgspec
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Struct

from shared.azure import BlobStore, expecting_an_answer
from shared.clock import Clock
from shared.errors import GateCorruptError
from shared.gate.held import HeldEntry
from shared.gate.held_work import HeldWork
from shared.gate.state import GateState
from shared.pending import ROLL_POINTER, PendingTable, Pointer
from shared.versions import decode_document

#: A leading underscore is in no gate's name.
_PREFIX: Final = "_roll-"
#: Entries that are sent together: as many rows as one transaction deletes.
BATCH: Final = 100
#: Entries that a releaser has in memory, with their messages. For the next ones it reads the rows again.
WINDOW: Final = 10_000
#: The shortest retention that can be set: before, no roll has to go.
_KEPT_AT_LEAST: Final = timedelta(days=8)


class RollPlace(NamedTuple):
    """One place on a roll: the id of an order, its number if its row names it, and storage's time of its row."""

    id: str
    number: int | None
    arrived: str


def place_of(entry: HeldEntry) -> RollPlace:
    """Return the place of an entry."""
    return RollPlace(entry.id, entry.number, entry.arrived)


def draw(seed: str, place: RollPlace) -> str:
    """Return the lot of an order. Who knows the random seed and the numbers draws the same."""
    drawn = place.id if place.number is None else place.number
    return hashlib.sha256(f"{seed}:{drawn}".encode()).hexdigest()


def by_arrival(place: RollPlace) -> tuple[str, int, str]:
    """Return the key by which places are sorted: storage leaves out the zeros at the end of a time."""
    return place.arrived.rstrip("Z"), place.number or 0, place.id


class _Document(Struct, frozen=True, omit_defaults=True):
    gate: str
    epoch: int
    order: Literal["arrival", "lottery"]
    places: list[RollPlace]
    seed: str = ""
    v: int = 1


@dataclass(frozen=True, slots=True)
class Roll:
    """The roll of one opening, and the SHA-256 of its blob."""

    gate: str
    epoch: int
    seed: str
    places: Sequence[RollPlace]
    content: bytes

    @property
    def order(self) -> str:
        """The name of its order."""
        return "lottery" if self.seed else "arrival"

    @property
    def sha256(self) -> str:
        """The hash that is in the audit."""
        return hashlib.sha256(self.content).hexdigest()


def make_roll(gate: str, state: GateState, places: Sequence[RollPlace]) -> Roll:
    """Sort the places as this opening wants them."""
    seed = state.seed
    ordered = sorted(places, key=by_arrival)
    if seed:
        ordered.sort(key=lambda place: draw(seed, place))
    document = _Document(gate, state.epoch, "lottery" if seed else "arrival", ordered, seed)
    head = msgspec.to_builtins(document)
    return Roll(gate, state.epoch, seed, ordered, msgspec.json.encode({"v": document.v, **head}))


def read_roll(content: bytes, where: str) -> Roll:
    """Read the blob of a roll. Raises GateCorruptError, and NewerVersionError."""
    try:
        found = decode_document(content, _Document, "roll", where)
    except (ValueError, RecursionError) as error:
        raise GateCorruptError(
            f"{where} is no roll ({type(error).__name__}: {error}): delete it, and the next tick makes it anew"
        ) from error
    return Roll(found.gate, found.epoch, found.seed, found.places, content)


class Rolls:
    """The rolls of an installation."""

    def __init__(
        self,
        container: ContainerClient,
        work: HeldWork,
        pending: PendingTable,
        clock: Clock,
        note: Callable[[GateState, Roll], object],
    ) -> None:
        """Take the stores. `note` records a roll in the audit, once, however often it is called."""
        self._container, self._work, self._pending, self._clock, self._note = container, work, pending, clock, note

    def find(self, gate: str, epoch: int) -> Roll | None:
        """Return the roll of an opening, or None: it held no orders, or its roll went."""
        store = self._store_of(gate, epoch)
        found = store.read()
        return None if found is None else read_roll(found.value, f"blob {store.name!r}")

    def epochs(self, gate: str) -> list[int]:
        """Return the openings of a gate that have a roll, the last one first."""
        prefix = f"{_PREFIX}{gate}-"
        with expecting_an_answer(f"find the rolls of gate {gate!r}"):
            ends = [name.removeprefix(prefix) for name in self._container.list_blob_names(name_starts_with=prefix)]
        return sorted((int(end) for end in ends if end.isdecimal()), reverse=True)

    def open(self, gate: str, state: GateState) -> Roll:
        """Return the roll of this opening. Make it of all orders that may start, unless it is there."""
        roll = self.find(gate, state.epoch) or self._make(gate, state, self._due(gate, state))
        self._note(state, roll)
        return roll

    def _make(self, gate: str, state: GateState, entries: Iterable[HeldEntry]) -> Roll:
        roll = make_roll(gate, state, [place_of(entry) for entry in entries])
        self._pending.add(Pointer(ROLL_POINTER, self._clock.now() + _KEPT_AT_LEAST, f"{gate}-{state.epoch}"))
        if self._store_of(gate, state.epoch).try_write(roll.content, None) is not None:
            return roll
        # Another process was faster. Or the reply to this write was lost, and it is this very roll.
        return self.find(gate, state.epoch) or roll

    def batches(
        self, gate: str, state: GateState, known: Sequence[HeldEntry] | None, on_page: Callable[[], object]
    ) -> Iterator[tuple[Sequence[str], list[HeldEntry]]]:
        """Yield the orders that may start, in the order of their roll. The caller sends each batch and deletes its rows.

        With each batch come the ids of the orders before it, as many as a batch has at most. Empty: it is the first.

        `known`: all that may start, if the caller has read it. What was held meanwhile comes at the end. `on_page` is
        called after each page of rows.
        """
        roll = self.find(gate, state.epoch)
        # Where the roll is there, others may have sent some of these since they were read.
        coming = [] if roll or known is None else list(known)
        roll = roll or self._make(gate, state, coming or self._due(gate, state, on_page))
        # Each releaser does: the process that made it may have ended before.
        self._note(state, roll)
        places = {place.id: number for number, place in enumerate(roll.places)}

        def turn(entry: HeldEntry) -> tuple[int, tuple[str, int, str]]:
            return places.get(entry.id, len(places)), by_arrival(place_of(entry))

        before: Sequence[str] = ()
        coming.sort(key=turn)
        while coming or (coming := heapq.nsmallest(WINDOW, self._due(gate, state, on_page), turn)):
            for begin in range(0, len(coming), BATCH):
                batch = coming[begin : begin + BATCH]
                place = places.get(batch[0].id, len(places))
                if place < len(places) or not before:
                    before = [one.id for one in roll.places[max(0, place - BATCH) : place]]
                yield before, batch
                before = [entry.id for entry in batch]
            coming = []

    def follow(self, pointer: Pointer, kept: timedelta) -> None:
        """Remove the roll of a due pointer, if it was kept for so long. Its hash stays in the audit."""
        blob = self._container.get_blob_client(_PREFIX + pointer.id)
        with expecting_an_answer(f"remove the roll {pointer.id!r}"):
            try:
                made: datetime = blob.get_blob_properties().last_modified
                if made + kept > self._clock.now():
                    # The new pointer before the old one goes.
                    self._pending.add(Pointer(ROLL_POINTER, made + kept, pointer.id))
                else:
                    blob.delete_blob()
            except ResourceNotFoundError:
                # Its writer ended before it wrote it, or a follower before it removed the pointer.
                pass
        self._pending.remove(pointer)

    def _store_of(self, gate: str, epoch: int) -> BlobStore:
        return BlobStore(self._container, f"{_PREFIX}{gate}-{epoch}")

    def _due(self, gate: str, state: GateState, on_page: Callable[[], object] = lambda: None) -> Iterator[HeldEntry]:
        for page in self._work.due_pages(state, gate):
            on_page()
            yield from (one.entry for one in page if one.entry.is_order)
