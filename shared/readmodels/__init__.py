"""Read models: what readers are shown of homes, and how a model gets a new version without downtime.

Reading order:

- `projection` decides how ranges of events make a view. It makes no request.
- `pointers`: the one row of a model, which leads readers, projectors and the migration.
- `slot_table`: the rows of views. `reader` reads them, `view_writer` writes them. `view_stores` has all.
- `migration`: the steps to another version, for one migrator at a time, with `verification`.
"""

from shared.readmodels.migration import (
    Migration as Migration,
    Rehearsal as Rehearsal,
    Report as Report,
    say_next as say_next,
)
from shared.readmodels.pointers import (
    AT_WORK as AT_WORK,
    PROJECTORS_KEEP as PROJECTORS_KEEP,
    READERS_KEEP as READERS_KEEP,
    KeptPointer as KeptPointer,
    ModelPointer as ModelPointer,
    Phase as Phase,
    Pointers as Pointers,
    Slot as Slot,
)
from shared.readmodels.projection import Model as Model, View as View, ViewKey as ViewKey
from shared.readmodels.reader import (
    Answer as Answer,
    KeptAnswers as KeptAnswers,
    Ladder as Ladder,
    Rung as Rung,
    ViewReader as ViewReader,
)
from shared.readmodels.slot_table import SlotTable as SlotTable, StoredView as StoredView, ViewPlace as ViewPlace
from shared.readmodels.verification import Verification as Verification
from shared.readmodels.view_stores import ViewStores as ViewStores
from shared.readmodels.view_writer import Projector as Projector, ViewWriter as ViewWriter
