"""The stages of a job: accept, start, dispatch, process, settle, finish. Each has a module, in that order.

- `accept`, `process` and `settle` also handle deliveries, and say how failed messages are parked and put back.
- `plan` cuts a payload into chunks, of a size that follows from the job. `start` also puts lost chunks again.
- `results` carries and reads the results of chunks: inline, in blobs, in groups, on the bus.
- `segments` gathers what the chunks come to, as the plan of the finish cuts it. `finish` publishes it, in shards if it is large.
- `outputs` writes the end of a job, totals too; `finish_request` requests it.
- `sweep` follows the pointers to jobs at every tick, and finds messages that no instance was woken for.
- `cleanup` deletes old bytes and repairs containers.
"""

from shared.pipeline.accept import Acceptance, Arrivals, accept_stage
from shared.pipeline.cleanup import MOST_OF_A_BATCH, Orphans, Retention, Rooms, Unread, list_unread, point_at
from shared.pipeline.dispatch import CURSOR_EVERY, MOST, Dispatcher, Enclosing, Overtaking, Waking, wake_nobody
from shared.pipeline.finish import Finisher, FinishTools, is_finishing
from shared.pipeline.finish_request import APART, FinishCall
from shared.pipeline.outputs import Outputs, TotalsTable
from shared.pipeline.plan import ChunkSizes, PlanStore, Speed, Speeds, choose
from shared.pipeline.process import Processor, Tools, work_stages
from shared.pipeline.results import LOOKS_PROPERTY, BusResults, GroupBlobs, Received, ResultStore
from shared.pipeline.segments import SEGMENT_BYTES, SEGMENT_CHUNKS, SHARD_BYTES, SHARDS, choose_shards
from shared.pipeline.settle import Settled, Settler, settle_stage
from shared.pipeline.start import PutAgain, Starter
from shared.pipeline.sweep import QueueFronts, Stranded, Sweep, WaitingResults

__all__ = [
    "APART",
    "CURSOR_EVERY",
    "LOOKS_PROPERTY",
    "MOST",
    "MOST_OF_A_BATCH",
    "SEGMENT_BYTES",
    "SEGMENT_CHUNKS",
    "SHARDS",
    "SHARD_BYTES",
    "Acceptance",
    "Arrivals",
    "BusResults",
    "ChunkSizes",
    "Dispatcher",
    "Enclosing",
    "FinishCall",
    "FinishTools",
    "Finisher",
    "GroupBlobs",
    "Orphans",
    "Outputs",
    "Overtaking",
    "PlanStore",
    "Processor",
    "PutAgain",
    "QueueFronts",
    "Received",
    "ResultStore",
    "Retention",
    "Rooms",
    "Settled",
    "Settler",
    "Speed",
    "Speeds",
    "Starter",
    "Stranded",
    "Sweep",
    "Tools",
    "TotalsTable",
    "Unread",
    "WaitingResults",
    "Waking",
    "accept_stage",
    "choose",
    "choose_shards",
    "is_finishing",
    "list_unread",
    "point_at",
    "settle_stage",
    "wake_nobody",
    "work_stages",
]
