"""The way of a job: accept, start, dispatch, process, settle, finish; one module per stage, in that order.

Beside them `plan` (chunks), `results` and `received` (results on their way), `merge`, `outputs` and `totals` (the end),
`finish_request`, `sweep` (followers of pointers), `retention` and `orphans` (what is deleted, and when), `rooms`.
"""

from shared.pipeline.accept import Acceptance
from shared.pipeline.arrivals import Arrivals, accept_stage
from shared.pipeline.dispatch import MOST, Dispatcher, Enclosing, Waking, wake_nobody
from shared.pipeline.finish import Finisher, FinishTools, is_finishing
from shared.pipeline.finish_request import FinishCall
from shared.pipeline.orphans import Orphans
from shared.pipeline.plan import PlanStore
from shared.pipeline.process import Processor, Tools
from shared.pipeline.received import Received, settle_stage
from shared.pipeline.results import BusResults, ResultStore
from shared.pipeline.retention import Retention
from shared.pipeline.rooms import Rooms, point_at
from shared.pipeline.settle import Settled, Settler
from shared.pipeline.start import Hints, Starter
from shared.pipeline.sweep import Sweep
from shared.pipeline.totals import TotalsTable
from shared.pipeline.work_parking import work_stages

__all__ = [
    "MOST",
    "Acceptance",
    "Arrivals",
    "BusResults",
    "Dispatcher",
    "Enclosing",
    "FinishCall",
    "FinishTools",
    "Finisher",
    "Hints",
    "Orphans",
    "PlanStore",
    "Processor",
    "Received",
    "ResultStore",
    "Retention",
    "Rooms",
    "Settled",
    "Settler",
    "Starter",
    "Sweep",
    "Tools",
    "TotalsTable",
    "Waking",
    "accept_stage",
    "is_finishing",
    "point_at",
    "settle_stage",
    "wake_nobody",
    "work_stages",
]
