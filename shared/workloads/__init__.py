"""The user's code: map a transaction, combine a chunk, merge partials, finish a job.

A workload needs this package and nothing else of Sluice; docs/workloads.md writes one from scratch.
"""

from shared.workloads.workload import Line, Rejected, Total, Workload

__all__ = ["Line", "Rejected", "Total", "Workload"]
