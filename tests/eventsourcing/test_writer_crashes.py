"""A writer that ends, or loses a request or a reply, at any point: redelivery makes it one whole batch, once."""

import itertools
import os
import random
from dataclasses import dataclass
from functools import partial

import pytest

from shared.azure import Connections
from shared.errors import ConflictError, StorageUnavailableError
from shared.processes import Mementos, MementoStore, TableHomes, Writer
from tests.eventsourcing.counter import Add, Counter, decider
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import MODES, Fault, KilledError, Plan

KEYS = (f"counter-{number}" for number in itertools.count())
BATCH = [Add("a", 40), Add("b", 1, outside="o1", content="h"), Add("c", 60), Add("a", 40), Add("d", 3, outside="o2")]
#: By `FAULTS=all` every request and every pair of faults. CI takes every third request, each mode beginning at another one,
#: and some pairs; a usual run a third of that.
STRIDE, PAIRS = (1, None) if os.environ.get("FAULTS") == "all" else (3, 12)


class Process:
    """A process with its own clients, which meets the faults of a plan."""

    def __init__(self, storage, table, container, plan):
        self.connections = Connections(storage.connection_string, transport=partial(storage.transport, plan))
        homes = TableHomes(
            self.connections.tables.get_table_client(table.table_name),
            MementoStore(self.connections.blobs.get_container_client(container.container_name), 1),
        )
        self.mementos = Mementos(homes, Counter(), 50)
        self.writer = Writer(homes, Counter(), self.mementos, decider())


@pytest.fixture
def storage():
    """A storage in memory: Azurite takes much longer over so many histories."""
    return MemoryStorage()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The pauses before repetitions are of no interest here, only the repetitions."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0)


@pytest.fixture
def connections(storage):
    """Its connections without faults."""
    with storage.connections() as made:
        yield made


@pytest.fixture
def process(storage, table, container):
    """Make a process, each time it is called."""
    opened = []

    def make(plan):
        made = Process(storage, table, container, plan)
        opened.append(made.connections)
        return made

    yield make
    for one in opened:
        one.close()


@dataclass(frozen=True)
class Start:
    """What was before the batch: a warm state in the process, and another writer since."""

    is_warm: bool = False
    has_other: bool = False


def run(process, homes, faults, start):
    """Give the batch until it is answered, in a new process after each kill; return the plan."""
    key, plan = next(KEYS), Plan()
    mine = process(plan)
    if start.is_warm:
        mine.writer.save(key, [Add("before")])
    if start.has_other:
        process(Plan()).writer.save(key, [Add("other")])
    # From here on, the requests are counted.
    plan._modes, plan.count = {fault.at: fault for fault in faults}, 0
    for _ in range(6):
        try:
            saved = mine.writer.save(key, BATCH)
        except KilledError:
            plan.revive()
            mine = process(plan)
        except (StorageUnavailableError, ConflictError):
            continue
        else:
            break
    else:
        raise AssertionError(f"never answered: {plan.sites}")
    plan.catch_up()
    check(homes, key, saved)
    return plan


def check(homes, key, saved):
    """Each command is stored once and whole, and the outcomes are what is stored."""
    home = homes.load(key)
    commands = [one.command for one in home.events]
    once = [name for n, name in enumerate(commands) if n == 0 or commands[n - 1] != name]
    assert [name for name in once if name not in {"before", "other"}] == ["a", "b", "c", "d"]
    assert {name: commands.count(name) for name in "abcd"} == {"a": 40, "b": 1, "c": 60, "d": 3}
    assert home.inbox == {"o1": "h", "o2": ""}
    assert saved.head.version == home.head.version == len(commands)
    assert all(one.error is None for one in saved.outcomes)
    memento = homes.read_memento(key)
    assert Counter().unpack(memento.packed)["by"] == commands[: memento.version]


STARTS = pytest.mark.parametrize(
    "start",
    [Start(), Start(is_warm=True), Start(is_warm=True, has_other=True)],
    ids=["cold", "warm", "conflict"],
)


@STARTS
@pytest.mark.parametrize("mode", MODES)
def test_a_fault_at_any_request(process, table_homes, mode, start, is_usual):
    """Every request of a batch of two transactions, with a memento in a blob, meets the fault."""
    quiet = run(process, table_homes, [], start)
    assert quiet.count > 3
    for at in range(1 + MODES.index(mode) % STRIDE, quiet.count + 1, STRIDE * (3 if is_usual else 1)):
        plan = run(process, table_homes, [Fault(at, mode)], start)
        assert plan.fired, at


@STARTS
def test_two_faults_at_any_requests(process, table_homes, start, is_usual):
    """The second one meets the reading that settles the first, or the redelivery."""
    length = run(process, table_homes, [], start).count
    pairs = [
        (Fault(first, one), Fault(first + apart, other))
        for first in range(1, length + 1)
        for apart in (1, 2, 3)
        for one in MODES
        for other in MODES
    ]
    for faults in pairs if PAIRS is None else random.Random(7).sample(pairs, PAIRS // (3 if is_usual else 1)):
        try:
            run(process, table_homes, faults, start)
        except BaseException as error:
            error.add_note(str([str(fault) for fault in faults]))
            raise
