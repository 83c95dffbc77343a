"""The user's code: map a transaction, combine a chunk, merge partials, finish a job.

A workload needs nothing else of Sluice. docs/workloads.md writes one from scratch.
"""

from shared.workloads.registry import (
    Rejection,
    Workloads,
    calling,
    has_split,
    is_waiting,
    items_of,
    run_lines,
    shard_of,
    split,
)
from shared.workloads.workload import AnyWorkload, Line, Rejected, Total, Workload

__all__ = [
    "AnyWorkload",
    "Line",
    "Rejected",
    "Rejection",
    "Total",
    "Workload",
    "Workloads",
    "calling",
    "has_split",
    "is_waiting",
    "items_of",
    "run_lines",
    "shard_of",
    "split",
]
