"""The index by ranges: the cost of a tick does not follow the pointers that are due later."""

import itertools
import json
from datetime import timedelta

import pytest
from azure.core.pipeline.transport import RequestsTransport
from azure.data.tables import TableServiceClient

from shared.pending import JOB_POINTER, PENDING, Due, Followers, PendingTable, Pointer, Range
from tests.gate.conftest import NOON, ManualClock

_numbers = itertools.count(1)
#: More than a page holds, and as many as Azurite writes within seconds.
MANY = 1_500
MOST = 16
AHEAD = timedelta(minutes=10)


class CountedReads(RequestsTransport):
    """Counts the requests and the rows of their replies."""

    def __init__(self):
        super().__init__()
        self.requests, self.rows = 0, 0

    def send(self, request, **options):
        """Send, and count the rows of the reply."""
        response = super().send(request, **options)
        self.requests += 1
        if request.method == "GET":
            self.rows += len(json.loads(response.internal_response.content)["value"])
        return response


class Index:
    """A table of its own, with the ranges `pending` and `agenda`."""

    def __init__(self, service, table, transport):
        self.table, self.clock, self.transport = service.get_table_client(table), ManualClock(), transport
        self.pending, self.agenda = PendingTable(self.table), PendingTable(self.table, "agenda")
        ranges = [(Range(PENDING, AHEAD), self.pending), (Range("agenda", most=MOST), self.agenda)]
        self.followers, self.followed = Followers(ranges, self.clock), []

    def follow(self, kind, **options):
        """Have a kind followed by a list, and its pointers removed from the range."""

        def follow(pointer, _until):
            self.followed.append(pointer.id)
            (self.agenda if options else self.pending).remove(pointer)

        self.followers.register(kind, follow, **options)

    def tick(self):
        """Do what one tick does; return its requests, the rows that it read, and whether a job is open."""
        before, due = (self.transport.requests, self.transport.rows), Due()
        for read in self.followers.reads(due):
            read()
        cost = (self.transport.requests - before[0], self.transport.rows - before[1])
        for step in self.followers.steps(due, 0):
            step()
        return *cost, due.is_job_open


@pytest.fixture
def index(provisioned):
    """An empty index."""
    transport = CountedReads()
    with TableServiceClient.from_connection_string(provisioned.connection_string, transport=transport) as service:
        table = f"pending{next(_numbers)}"
        service.create_table(table)
        yield Index(service, table, transport)
        service.delete_table(table)


def fill(index, pointers, partition):
    """Write many pointers, a transaction per hundred."""
    rows = [{"PartitionKey": partition, "RowKey": pointer.row_key} for pointer in pointers]
    for first in range(0, len(rows), 100):
        index.table.submit_transaction([("create", row) for row in rows[first : first + 100]])


def test_any_number_of_future_pointers_costs_a_tick_nothing(index):
    """Requests and rows of a tick are the same with many deadlines ahead as with none, however near they are."""
    index.follow(JOB_POINTER, means_open=True)
    index.follow("note", range="agenda")
    index.pending.add(Pointer(JOB_POINTER, NOON + timedelta(minutes=4), "open"))
    index.agenda.add(Pointer("note", NOON, "due"))
    alone = index.tick()
    assert (alone, index.followed) == ((2, 2, True), ["due"])
    index.agenda.add(Pointer("note", NOON, "due"))
    deadlines = (Pointer("note", NOON + timedelta(seconds=1 + n % 3600), f"order-{n}") for n in range(MANY))
    fill(index, deadlines, "pending-agenda")
    assert index.tick() == alone


def test_a_range_that_no_kind_uses_is_never_read(index):
    """An idle tick stays at one request for the index."""
    index.follow(JOB_POINTER, means_open=True)
    index.agenda.add(Pointer("note", NOON, "due"))
    assert index.tick() == (1, 0, False)
    assert len(list(index.agenda.due(NOON))) == 1


def test_a_tick_takes_so_many_rows_of_a_range_by_one_request_and_the_next_tick_the_rest(index):
    """The oldest first; a burst of deadlines never makes one tick long."""
    index.follow("note", range="agenda")
    fill(index, (Pointer("note", NOON - timedelta(seconds=n), f"{n:02}") for n in range(40)), "pending-agenda")
    assert [index.tick()[:2] for _ in range(4)] == [(1, 16), (1, 16), (1, 8), (1, 0)]
    assert index.followed == [f"{n:02}" for n in reversed(range(40))]


def test_an_instance_whose_clock_is_behind_reads_again_with_the_time_of_storage(index):
    """A pointer that is due by the clock of storage is followed at this tick."""
    index.follow("note", range="agenda")
    index.agenda.add(Pointer("note", NOON + timedelta(minutes=2), "due"))
    index.clock.of_reply = lambda _told: NOON + timedelta(minutes=3)
    assert index.tick()[:2] == (2, 1)
    assert index.followed == ["due"]


def test_kinds_of_a_lower_turn_come_first_and_then_the_oldest_pointer(index):
    """One that may take long waits for the others; one of an unknown kind is left alone."""
    index.followers.register("slow", lambda pointer, _until: index.followed.append(pointer.id), turn=1)
    index.follow("quick")
    for age, (kind, name) in enumerate([("quick", "c"), ("slow", "d"), ("quick", "b"), ("slow", "s"), ("odd", "o")]):
        index.pending.add(Pointer(kind, NOON - timedelta(seconds=age), name))
    index.tick()
    assert index.followed == ["b", "c", "s", "d"]
