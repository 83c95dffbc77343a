"""An installation whose workload has a limit of calls: its lots are leases, which end by the clock of the run."""

from contextlib import suppress
from dataclasses import replace

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobLeaseClient

from shared.app import Takeovers
from shared.dequeue import CONTAINER, BlobSlots, WorkQueue
from shared.pipeline import CallLimits
from shared.pipeline.outputs import run_in_parts
from shared.topology import LEASE_SECONDS
from shared.workloads import Calls
from tests.faults.host import HIDDEN
from tests.faults.invariants import breaches
from tests.faults.plan import KilledError, Plan
from tests.faults.sales import Sales
from tests.faults.world import Process, World

CALLS, SECONDS = 3, 1
_ALL_BUT_WORK = ("submissions", "results", "signals", "permits")


class LimitedSales(Sales):
    """Sales each of whose calls has a turn of a limit."""

    #: In these runs a lot is one call.
    limits = {"bank": f"{CALLS}/s"}  # noqa: RUF012 - as a workload writes it

    def __init__(self, note=lambda *_: None):
        super().__init__(note)
        #: The time, and whom the first call is to run beside itself.
        self.now, self.beside = lambda: 0.0, None

    def map(self, sale, number):
        """Note the call."""
        self.note("call", self.now())
        beside, self.beside = self.beside, None
        if beside is not None:
            beside()
        return super().map(sale, number)


class LimitedWorld(World):
    """One with that workload. It knows when each lot was leased or renewed."""

    workload = LimitedSales

    def __init__(self, storage, journal):
        super().__init__(storage, journal)
        self.sales.now, self.leased = self.clock.monotonic, {}

    def app(self, plan=None):
        """Return a process. On a real storage a process of before was another one, whose leases nobody here knows."""
        if self.storage.is_real:
            self.clock.advance(seconds=LEASE_SECONDS)
            self.end(*(blob.name for blob in self._lots().list_blobs(name_starts_with="rate-")))
        return LimitedProcess(self, plan or Plan(note=self.journal.note))

    def age(self):
        """End the leases that storage would have ended."""
        now = self.clock.monotonic()
        self.end(*(name for name, since in self.leased.items() if now - since >= LEASE_SECONDS))

    def end(self, *names):
        """End these leases."""
        for name in names:
            self.leased.pop(name, None)
            with suppress(HttpResponseError):
                BlobLeaseClient(self._lots().get_blob_client(name)).break_lease(0)

    def _lots(self):
        return self.observer().blobs.get_container_client(CONTAINER)


class LimitedProcess(Process):
    """A process whose waits move the clock."""

    def __init__(self, world, plan):
        super().__init__(world, plan)
        lots = _Lots(self.stores.container(CONTAINER), world)
        limits = CallLimits(lots, world.clock, {}, pause=lambda seconds: world.clock.advance(seconds=seconds))
        processor = self.app.stages.processor
        processor._tools = replace(processor._tools, pace=limits.pace)
        # Its waits for turns move the clock: the thread that renews messages would do so at any place among the others.
        client = self.connections.queues.get_queue_client
        self.app.takeovers = Takeovers(
            queue=lambda name: WorkQueue(client(name), world.clock, 10 * HIDDEN),
            clock=world.clock,
            redeliver_after=lambda *_: 0,
        )

    def _run_here(self, *chunk, turns, **more):
        """Run a suspect. Its calls take turns, as the real child asks for each."""
        return run_in_parts(*chunk, calls=Calls(turns=turns, monotonic=self.world.clock.monotonic), **more)


class _Lots(BlobSlots):
    """Lots whose leases end by the clock of the run."""

    def __init__(self, container, world):
        super().__init__(container, world.clock)
        self._world = world

    def list_leased_lots(self, limit):
        """Return them."""
        self._world.age()
        return super().list_leased_lots(limit)

    def _lease(self, name, tried):
        self._world.age()
        found = super()._lease(name, tried)
        # A lease whose reply was lost counts from now on, too. One that another holds counts from its own beginning.
        self._world.leased.setdefault(name, self._world.clock.monotonic())
        return found and _Renewed(found, self._world, name)


class _Renewed:
    """A lease that tells the run of its renewals."""

    def __init__(self, lease, world, name):
        self._found, self._world, self._name = lease, world, name

    @property
    def is_held(self):
        """As the lease has it."""
        return self._found.is_held

    @property
    def due(self):
        """As the lease has it."""
        return self._found.due

    def renew(self):
        """Extend it."""
        self._world.age()
        if self._name in self._world.leased:
            self._world.leased[self._name] = self._world.clock.monotonic()
        self._found.renew()

    def release(self):
        """Free it. If that is lost, it ends by itself."""
        self._found.release()


def process_beside(world, app):
    """Process, while another process is in the middle of a chunk and has a lot."""

    def act():
        with suppress(KilledError):
            app.host(hold_back=_ALL_BUT_WORK).run()

    world.sales.beside = act
    with world.app(Plan(note=world.journal.note)) as other:
        other.host(hold_back=_ALL_BUT_WORK).run()


def breaches_of_limit(world, scenario):
    """Yield everything that is wrong, and any time in which there were more calls than the limit says."""
    yield from breaches(world, scenario)
    times = sorted(time for (time,) in world.journal.entries("call"))
    for first, last in zip(times, times[CALLS:], strict=False):
        if last - first < SECONDS:
            yield f"{CALLS + 1} calls within {last - first:.1f} s, at most {CALLS} in {SECONDS} s are allowed"
    if not times:
        yield "there was no call"
