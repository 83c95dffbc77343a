"""Keeps what needs a person, and what ticks saw, so that a first page reads one partition and no list of jobs.

Reading order:

- `needs` has the kinds and their words. Who finds a need decides about it: of a job, `shared/ledger/job_needs.py`.
- `points` has the rows of hours: what a tick saw, and the marks of needs and acts.
- `past` reads them: gaps, how long a need stood, what was at a moment.
- `watch_table` is the store; `tick_needs` has what the steps of a tick find.
"""

from shared.watch.needs import (
    PARKED as PARKED,
    RULES as RULES,
    SILENT as SILENT,
    TICK as TICK,
    WORK_WAITS as WORK_WAITS,
    Need as Need,
    NeedKind as NeedKind,
    cut_found as cut_found,
    is_kind_of_job as is_kind_of_job,
    name_kind as name_kind,
    sort_needs as sort_needs,
)
from shared.watch.past import (
    Gap as Gap,
    PastMoment as PastMoment,
    Spending as Spending,
    Stood as Stood,
    find_last_point as find_last_point,
    find_silence as find_silence,
    list_gaps as list_gaps,
    list_points as list_points,
    list_spending as list_spending,
    list_stood as list_stood,
)
from shared.watch.points import (
    IDLE_EVERY as IDLE_EVERY,
    SPENT_EVERY as SPENT_EVERY,
    Act as Act,
    Hour as Hour,
    Point as Point,
    PointAt as PointAt,
    SpentUntil as SpentUntil,
    hour_of as hour_of,
    hours_of_day as hours_of_day,
)
from shared.watch.tick_needs import TickNeeds as TickNeeds
from shared.watch.watch_table import KEPT as KEPT, Standing as Standing, WatchTable as WatchTable
