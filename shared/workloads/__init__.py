"""The user's code: map a transaction, combine a chunk, merge partials, finish a job.

A workload needs nothing else of Sluice. docs/workloads.md writes one from scratch.
"""

from shared.workloads.registry import (
    Loaded as Loaded,
    Rejection as Rejection,
    Workloads as Workloads,
    calling as calling,
    has_split as has_split,
    is_waiting as is_waiting,
    items_of as items_of,
    map_all as map_all,
    run_lines as run_lines,
    shard_of as shard_of,
    split as split,
)
from shared.workloads.workload import (
    AnyWorkload as AnyWorkload,
    Line as Line,
    Rejected as Rejected,
    Total as Total,
    Workload as Workload,
)
