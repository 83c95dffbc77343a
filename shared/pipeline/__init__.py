"""The stages of a job: accept, start, dispatch, process, settle, finish. Each has a module, in that order.

- `arrivals` and `work_parking` handle deliveries and say how failed messages are parked and put back.
- `plan` cuts a payload into chunks, as large as `chunk_size` says; `results`, `bus_results`, `received` and
  `group_blobs` carry the results of chunks.
- `segments` and `merge` gather what the chunks come to, as `finish_plan` cuts it; `segment_blobs` stores it; `shards`
  publishes it.
- `outputs` and `totals` write the end of a job; `finish_request` requests it.
- `sweep` follows the pointers to jobs at every tick; `fronts`, `waiting_results` and `put_again` find and repeat what
  was lost.
- `stranded` finds messages on the work queues that no instance was woken for.
- `retention`, `orphans` and `rooms` delete old bytes and repair containers.
"""

from shared.pipeline.accept import Acceptance
from shared.pipeline.arrivals import Arrivals, accept_stage
from shared.pipeline.before_put import Overtaking, Waking, wake_nobody
from shared.pipeline.bus_results import LOOKS_PROPERTY, BusResults, Received
from shared.pipeline.chunk_size import ChunkSizes, Speed, Speeds, choose
from shared.pipeline.dispatch import CURSOR_EVERY, MOST, Dispatcher, Enclosing
from shared.pipeline.finish import Finisher, FinishTools, is_finishing
from shared.pipeline.finish_plan import choose_shards
from shared.pipeline.finish_request import APART, FinishCall
from shared.pipeline.fronts import QueueFronts
from shared.pipeline.group_blobs import GroupBlobs
from shared.pipeline.orphans import Orphans
from shared.pipeline.outputs import Outputs
from shared.pipeline.plan import PlanStore
from shared.pipeline.process import Processor, Tools
from shared.pipeline.put_again import PutAgain
from shared.pipeline.received import settle_stage
from shared.pipeline.results import ResultStore
from shared.pipeline.retention import MOST_OF_A_BATCH, Retention
from shared.pipeline.rooms import Rooms, Unread, list_unread, point_at
from shared.pipeline.segments import SEGMENT_BYTES, SEGMENT_CHUNKS, SHARD_BYTES, SHARDS
from shared.pipeline.settle import Settled, Settler
from shared.pipeline.start import Starter
from shared.pipeline.stranded import Stranded
from shared.pipeline.sweep import Sweep
from shared.pipeline.totals import TotalsTable
from shared.pipeline.waiting_results import WaitingResults
from shared.pipeline.work_parking import work_stages

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
