"""Read models: what readers are shown of homes, and how a model gets a new version without downtime.

Reading order:

- `projection` decides how ranges of events make a view. It makes no request.
- `pointers`: the one row of a model, which leads readers, projectors and the migration.
- `slot_table`: the rows of views. `reader` reads them, `view_writer` writes them. `view_stores` has all.
- `migration`: the steps to another version, for one migrator at a time, with `verification`.
"""

from shared.readmodels.migration import Migration, Rehearsal, Report, say_next
from shared.readmodels.pointers import (
    AT_WORK,
    PROJECTORS_KEEP,
    READERS_KEEP,
    KeptPointer,
    ModelPointer,
    Phase,
    Pointers,
    Slot,
)
from shared.readmodels.projection import Model, View, ViewKey
from shared.readmodels.reader import SEATS_LADDER, Answer, KeptAnswers, ViewReader
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace
from shared.readmodels.verification import Verification
from shared.readmodels.view_stores import ViewStores
from shared.readmodels.view_writer import Projector, ViewWriter

__all__ = [
    "AT_WORK",
    "PROJECTORS_KEEP",
    "READERS_KEEP",
    "SEATS_LADDER",
    "Answer",
    "KeptAnswers",
    "KeptPointer",
    "Migration",
    "Model",
    "ModelPointer",
    "Phase",
    "Pointers",
    "Projector",
    "Rehearsal",
    "Report",
    "Slot",
    "SlotTable",
    "StoredView",
    "Verification",
    "View",
    "ViewKey",
    "ViewPlace",
    "ViewReader",
    "ViewStores",
    "ViewWriter",
    "say_next",
]
