"""Processes that draw ids from one blob while they are killed and their replies are lost, and the account of it."""

import array
import collections
import contextlib
import multiprocessing
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

from azure.storage.blob import LinearRetry

from shared.azure import BlobStore, connect
from shared.errors import SluiceError
from shared.ids import NumberFate, RangeGenerator, SequenceWrite, Sizing, WriteKind, book, read_sequence
from shared.ids.book import read_log
from shared.ids.explain import explain
from tests.ids.losing_transport import LosingTransport, counted
from tests.ids.seed_generator import SeedGenerator, SeedStore

#: Ids drawn before they are written down: what a kill loses at most between the two.
BATCH = 50


@dataclass(frozen=True)
class Chaos:
    """What is done to whom."""

    processes: int
    ids: int
    kills: int
    loss: float
    range_size: int
    generator: str = "ours"
    deadline: float = 600.0
    first_pause: float = book.WRITES.first
    seed: int = 1


@dataclass
class Account:
    """What came of it."""

    ids: int = 0
    duplicates: int = 0
    kills: int = 0
    lost_replies: int = 0
    requests: int = 0
    refused: int = 0
    reservations: int = 0
    gaps: int = 0
    gaps_by_fate: dict[str, int] = field(default_factory=dict)
    #: Numbers whose story the log tells wrongly, or not at all.
    unexplained: int = 0
    seconds: float = 0.0

    def rows(self) -> dict[str, object]:
        """Return the figures by name."""
        return asdict(self)


@contextlib.contextmanager
def next_id_of(chaos: Chaos, connection: str, container: str, tally: Path, seed: int) -> Iterator[Callable[[], int]]:
    """Yield the generator under test, with a transport that loses replies."""
    transport = LosingTransport(tally, chaos.loss, seed)
    # The library repeats lost requests as in production, only sooner: thousands of pauses prove nothing.
    quick = LinearRetry(backoff=0.02, retry_total=2, random_jitter_range=0.01)
    with connect(connection, container, transport=transport, retry_policy=quick) as client:
        store = BlobStore(client, "orders")
        if chaos.generator == "Twist":
            yield _seed_generator(SeedStore(store), chaos.range_size).next_id
            return
        sizing = Sizing(first=10, range_size=chaos.range_size, largest=chaos.range_size)
        with RangeGenerator(store, sizing=sizing) as generator:
            yield generator.next_id


def _seed_generator(store: SeedStore, range_size: int) -> SeedGenerator:
    """Make one however often its first range is refused, as an application does that is started again."""
    while True:
        with contextlib.suppress(SluiceError, RuntimeError):
            return SeedGenerator(store, range_size)


def work(chaos: Chaos, connection: str, container: str, folder: Path, slot: int, seed: int) -> None:  # noqa: PLR0917  # a process's arguments
    """Draw ids until this slot's file holds its share; each life of the slot goes on where the last one ended."""
    ledger = os.open(folder / f"slot-{slot}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    # Pauses between attempts are shorter than in production, as those of the library: they prove nothing.
    book.WRITES = replace(book.WRITES, first=chaos.first_pause)
    with next_id_of(chaos, connection, container, folder / "tally", seed) as next_id:
        while (missing := chaos.ids - os.fstat(ledger).st_size // 8) > 0:
            drawn = array.array("q")
            with contextlib.suppress(SluiceError, RuntimeError):
                # An application that meets an error asks again.
                drawn.extend(next_id() for _ in range(min(BATCH, missing)))
            os.write(ledger, drawn.tobytes())
    os.close(ledger)


def run(chaos: Chaos, connection: str, folder: Path) -> Account:
    """Run it, and account for every number."""
    started = time.monotonic()
    container = f"chaos-{uuid.uuid4().hex[:12]}"
    with connect(connection, container) as client:
        client.create_container()
        store = BlobStore(client, "orders")
        if chaos.generator == "Twist":
            store.try_write(b"0", None)
        killed = _run_processes(chaos, connection, container, folder)
        account = Account(kills=len(killed), seconds=time.monotonic() - started)
        _count_ids(account, folder)
        if chaos.generator == "ours":
            _explain_gaps(account, store, _recorded(folder), killed)
        return account


def _run_processes(chaos: Chaos, connection: str, container: str, folder: Path) -> set[int]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.ids.chaos"])
    chance = random.Random(chaos.seed)

    def start(slot: int) -> BaseProcess:
        job = (chaos, connection, container, folder, slot, chance.randrange(2**32))
        process = context.Process(target=work, args=job)
        process.start()
        return process

    slots = {slot: start(slot) for slot in range(chaos.processes)}
    killed: set[int] = set()
    deadline = time.monotonic() + chaos.deadline
    while slots:
        assert time.monotonic() < deadline, f"{len(slots)} processes have not finished; {len(killed)} were killed"
        time.sleep(0.005)
        for slot, process in tuple(slots.items()):
            assert not process.exitcode, f"the process of slot {slot} failed by itself"
            if process.exitcode == 0:
                del slots[slot]
        progress = sum(path.stat().st_size for path in folder.glob("slot-*")) / (chaos.processes * chaos.ids * 8)
        if slots and len(killed) < chaos.kills and progress > 0.95 * (len(killed) + 1) / (chaos.kills + 1):
            slot = chance.choice(tuple(slots))
            slots[slot].kill()
            slots[slot].join()
            killed.add(slots[slot].pid or 0)
            slots[slot] = start(slot)
    return killed


def _recorded(folder: Path) -> list[int]:
    ids = array.array("q")
    for path in folder.glob("slot-*"):
        ids.frombytes(path.read_bytes())
    return ids.tolist()


def _count_ids(account: Account, folder: Path) -> None:
    ids = _recorded(folder)
    account.ids, account.duplicates = len(ids), len(ids) - len(set(ids))
    wire = counted(folder / "tally")
    account.requests, account.lost_replies, account.refused = wire["requests"], wire["lost"], wire["refused"]


def _explain_gaps(account: Account, store: BlobStore, recorded: list[int], killed: set[int]) -> None:
    """Every number that no file holds must be left, or its holder killed; every recorded one must not be left."""
    page = read_sequence(store)
    assert page is not None
    events = (*read_log(store, page.spilled), *page.events)
    account.reservations = sum(event.kind is WriteKind.RESERVED for event in events)
    by_node: dict[str, list[int]] = collections.defaultdict(list)
    holder: dict[int, int] = {}
    for place, event in enumerate(events):
        by_node[event.by.node].append(place)
        if event.kind is WriteKind.RESERVED:
            holder.update(dict.fromkeys(event.numbers, place))
    known = set(recorded)
    fates: collections.Counter[str] = collections.Counter()
    for number in range(1, page.next):
        story = _story(number, events, holder, by_node)
        if number in known:
            account.unexplained += story not in {NumberFate.HANDED_OUT, NumberFate.HELD}
            continue
        account.gaps += 1
        is_killed = number in holder and int(events[holder[number]].by.node.split("/")[1]) in killed
        fates[f"{story}, its process {'killed' if is_killed else 'ended'}"] += 1
        # A number that its node said it handed out is missing only if its taker was killed before writing it down.
        account.unexplained += story not in (
            {NumberFate.LEFT, NumberFate.HELD, NumberFate.HANDED_OUT}
            if is_killed
            else {NumberFate.LEFT, NumberFate.HELD}
        )
    account.gaps_by_fate = dict(fates)


def _story(
    number: int, events: tuple[SequenceWrite, ...], holder: dict[int, int], by_node: dict[str, list[int]]
) -> NumberFate:
    if number not in holder:
        return NumberFate.NOT_RESERVED
    first = holder[number]
    followers = (events[place] for place in by_node[events[first].by.node] if place >= first)
    return explain(number, followers).fate
