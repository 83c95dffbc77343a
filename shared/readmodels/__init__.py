"""Read models: what readers are shown of homes, and how a model gets a new version without downtime.

Reading order:

- `projection` (what a model is) and `ladder` (how long an answer may be kept) are pure.
- `pointer` and `pointers`: the one row of a model, which leads readers, projectors and the migration.
- `slot_table`: the rows of views, and `reader`.
"""

from shared.readmodels.ladder import SEATS_LADDER, Ladder, Step
from shared.readmodels.pointer import PROJECTORS_KEEP, READERS_KEEP, ModelPointer, Phase, Slot
from shared.readmodels.pointers import KeptPointer, Pointers
from shared.readmodels.projection import Model, Projection, View, ViewKey
from shared.readmodels.reader import ViewReader
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace

__all__ = [
    "PROJECTORS_KEEP",
    "READERS_KEEP",
    "SEATS_LADDER",
    "KeptPointer",
    "Ladder",
    "Model",
    "ModelPointer",
    "Phase",
    "Pointers",
    "Projection",
    "Slot",
    "SlotTable",
    "Step",
    "StoredView",
    "View",
    "ViewKey",
    "ViewPlace",
    "ViewReader",
]
