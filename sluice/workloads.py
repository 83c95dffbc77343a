"""The parts of a workload."""

from shared.grammar import EXACT as EXACT
from shared.workloads import Line as Line
from shared.workloads import Rejected as Rejected
from shared.workloads import Total as Total
from shared.workloads import Workload as Workload
from shared.workloads import shard_of as shard_of
