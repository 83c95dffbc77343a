"""The user's code: map a transaction, combine a chunk, merge partials, finish a job.

A workload needs nothing else of Sluice. docs/workloads.md writes one from scratch.
"""

from shared.errors import Later as Later
from shared.workloads.isolate import (
    DELIVERY_SECONDS as DELIVERY_SECONDS,
    FIRST_PAUSE as FIRST_PAUSE,
    LONGEST_PAUSE as LONGEST_PAUSE,
    MOST_LEFT as MOST_LEFT,
    Calls as Calls,
    Failures as Failures,
    Left as Left,
    PartialPiece as PartialPiece,
    Service as Service,
    Turns as Turns,
    is_uncalled as is_uncalled,
    is_waiting_error as is_waiting_error,
    pause_after as pause_after,
)
from shared.workloads.lines import LineSink as LineSink
from shared.workloads.registry import (
    LONGEST_LINE as LONGEST_LINE,
    Loaded as Loaded,
    Rejection as Rejection,
    Workloads as Workloads,
    by_key as by_key,
    calling as calling,
    complete as complete,
    first_of as first_of,
    has_limits as has_limits,
    has_lines as has_lines,
    has_split as has_split,
    is_waiting as is_waiting,
    isolate_lines as isolate_lines,
    items_of as items_of,
    map_all as map_all,
    raise_first as raise_first,
    rates_of as rates_of,
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
