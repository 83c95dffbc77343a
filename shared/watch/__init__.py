"""Keeps what needs a person, so that a first page reads one partition and no list of jobs.

Reading order:

- `needs` has the kinds and their words. Who finds a need decides about it: of a job, `shared/ledger/job_needs.py`.
- `watch_table` is the store.
"""

from shared.watch.needs import (
    Need as Need,
    NeedKind as NeedKind,
    cut_found as cut_found,
    name_kind as name_kind,
)
from shared.watch.watch_table import Standing as Standing, WatchTable as WatchTable
