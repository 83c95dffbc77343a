"""Everything that read models have in storage, and the parts of a process that use it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from azure.storage.blob import ContainerClient

from shared.azure import Connections
from shared.clock import Clock
from shared.processes import Homes
from shared.readmodels.pointers import PROJECTORS_KEEP, READERS_KEEP, KeptPointer, Pointers, Slot
from shared.readmodels.projection import Model
from shared.readmodels.reader import ViewReader
from shared.readmodels.slot_table import SlotTable
from shared.readmodels.view_writer import Projector, ViewWriter
from shared.topology import MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStores:
    """The pointers and the views of one installation, with the homes that they show."""

    pointers: Pointers
    slots: Mapping[Slot, SlotTable]
    homes: Homes
    #: The container of the leases of migrators.
    leases: ContainerClient
    clock: Clock
    #: Hears of each model why its migration needs a person, or an empty text.
    note_standing: Callable[[str, str], object] = lambda _model, _found: None

    @classmethod
    def connect(
        cls, connections: Connections, homes: Homes, clock: Clock, note_standing: Callable[[str, str], object]
    ) -> Self:
        """Return the stores of these connections. It makes no request."""
        table = connections.tables.get_table_client
        return cls(
            pointers=Pointers(table(MODELS), clock),
            slots={slot: SlotTable(table(slot)) for slot in Slot},
            homes=homes,
            leases=connections.blobs.get_container_client("settings"),
            clock=clock,
            note_standing=note_standing,
        )

    def projector(self, model: Model) -> Projector:
        """Return the projector of a model. One per process, because it keeps rows that it wrote."""
        pointer = KeptPointer(self.pointers, model, PROJECTORS_KEEP, self.clock)
        return Projector(pointer, ViewWriter(model, self.slots, self.homes), self.clock, self.note_standing)

    def reader(self, model: Model) -> ViewReader:
        """Return the reader of a model. One per process, because it keeps the pointer for two seconds."""
        return ViewReader(KeptPointer(self.pointers, model, READERS_KEEP, self.clock), self.slots)
