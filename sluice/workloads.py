"""The parts of a workload."""

from shared.grammar import EXACT as EXACT
from shared.workloads import (
    Later as Later,
    Line as Line,
    Rejected as Rejected,
    Total as Total,
    Workload as Workload,
    by_key as by_key,
    shard_of as shard_of,
)
