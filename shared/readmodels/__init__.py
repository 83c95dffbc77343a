"""Read models: what readers are shown of homes, and how a model gets a new version without downtime.

Reading order:

- `projection` (a model, and how ranges of events make a view), `migration_steps` and `ladder` decide. They make no request.
- `pointers`: the one row of a model, which leads readers, projectors and the migration.
- `slot_table`: the rows of views, with `reader`. `view_writer` and `projector` write them. `view_stores` has all.
- `migration`, with `lone_migrator`, `rehearsal`, `log_pages` and `verification`.
"""

from shared.readmodels.ladder import SEATS_LADDER, Answer, KeptAnswers
from shared.readmodels.migration import Migration, Report
from shared.readmodels.migration_steps import say_next
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
from shared.readmodels.projector import Projector
from shared.readmodels.reader import ViewReader
from shared.readmodels.rehearsal import Rehearsal
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace
from shared.readmodels.verification import Verification
from shared.readmodels.view_stores import ViewStores
from shared.readmodels.view_writer import ViewWriter

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
