"""A whole migration with events and readers beside it, whose migrator may break at any request.

Between any two acts of the migrator, events happen and are projected by two processes, one of which keeps its pointer
as long as it may. An impatient operator types `switch` each time. Readers then read every home, by a pointer that is up
to two seconds old: they must see every event, in one version.
"""

from contextlib import suppress

from shared.errors import ContentionError, MigrationRefusedError, StorageUnavailableError
from shared.readmodels import Phase, Slot
from tests.faults.plan import KilledError, Plan

STEPS = ("start", "verify", "switch", "roll_back", "switch", "finish")
#: The phase that each step ends in, for the operator who reads it after a lost reply.
ENDS = {
    "start": {Phase.BUILT, Phase.VERIFIED, Phase.SWITCHED},
    "verify": {Phase.VERIFIED, Phase.SWITCHED},
    "switch": {Phase.SWITCHED},
    "roll_back": {Phase.ROLLED_BACK, Phase.SWITCHED},
    "finish": {Phase.DONE},
}


class Story:
    """One migration from version 1 to version 2."""

    def __init__(self, house, plan=None, *, homes=3, is_busy=True):
        self.house, self.plan, self.is_busy = house, plan or Plan(), is_busy
        self.homes = [f"counter-{number:03}" for number in range(homes)]
        self.live = [house.process(), house.process()]
        self.readers = [house.process(), house.process()]
        self.operator = house.process()
        self.turn = self.reads = 0
        for home in self.homes:
            self.happen(home)

    def happen(self, home):
        """Have an event happen, and be projected by one of the processes."""
        self.turn += 1
        one = self.house.append(home, self.turn)
        self.live[self.turn % 2].projector.project([one])

    def beside(self, *_told):
        """Let the others act: events, the operator, readers. One home is new each time."""
        if not self.is_busy and self.turn > 8:
            self.happen(self.homes[-1])
            self.read(self.homes[-1])
            return
        self.homes.append(f"counter-{len(self.homes):03}")
        older = self.homes[self.turn % len(self.homes)]
        self.happen(self.homes[-1])
        self.happen(older)
        if self.is_busy:
            with suppress(MigrationRefusedError, ContentionError):
                self.operator.migration().switch()
        self.read(self.homes[-1], older, self.homes[self.turn * 7 % len(self.homes)])

    def read(self, *homes):
        """Read homes, or raise AssertionError for a view that is missing, behind, or of no version."""
        reader = self.readers[self.turn // 2 % 2]
        for home in homes:
            view = reader.find(home)
            self.reads += 1
            amounts = [one.body["amount"] for one in self.house.homes.read_tail(home, 0)]
            assert view, f"{home} is missing"
            assert view["amounts"] == amounts, f"{home} is behind"
            rest = {name: value for name, value in view.items() if name not in {"sum", "amounts"}}
            assert view["sum"] == sum(amounts)
            assert rest in ({}, {"largest": max(amounts)}), f"{home} is mixed"

    def run(self):
        """Take all steps. After a crash or an error, the same step is typed again."""
        process = self.house.process(self.plan)
        for step in STEPS:
            while True:
                try:
                    outcome = getattr(process.migration(report=self.beside), step)()
                    if step == "verify":
                        assert outcome.is_right, outcome.differences
                    break
                except KilledError:
                    self.plan.revive()
                    process = self.house.process(self.plan)
                    self.house.free_lease()
                except (StorageUnavailableError, ContentionError, MigrationRefusedError):
                    if not self.plan.fired:
                        raise
                    self.house.free_lease()
                    if self.operator.pointers.read(self.house.model).phase in ENDS[step]:
                        break
            self.beside()
            self.house.clock.advance(seconds=1)
        self.read(*self.homes)
        return self

    def check(self):
        """Check the end: the new version in its slot, equal to the log, and nothing in the old one."""
        pointer = self.operator.pointers.read(self.house.model)
        assert (pointer.current, pointer.slot, pointer.doubled, pointer.phase) == (2, Slot.B, None, Phase.DONE)
        assert self.house.rows(Slot.B, 2) == self.house.expected(2)
        assert self.house.rows(Slot.A, 1) == {}
