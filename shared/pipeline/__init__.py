"""The stages of a job: accept, start, dispatch, process, settle, finish. Each has a module, in that order.

- `accept`, `process` and `settle` also handle deliveries, and say how failed messages are parked and put back.
- `plan` cuts a payload into chunks, of a size that follows from the job. `start` also puts lost chunks again.
- `results` carries and reads the results of chunks: inline, in blobs, in groups, on the bus.
- `streams` packs lines behind a result. `line_parts` copies them into the outputs, still packed.
- `segments` gathers what the chunks come to, as the plan of the finish in `finish_blobs` cuts it. `finish` publishes it, in shards if it is large.
- `outputs` writes the end of a job, totals too; `dispatch` requests it.
- `halts` takes the messages of paused jobs out of the queues.
- `sweep` follows the pointers to jobs at every tick, and finds messages that no instance was woken for.

Four folders have what most jobs do not need:

- `feeding`: jobs that wait for their turn, and the feeder that puts their chunks in fair shares.
- `failing`: `so_far` keeps what a chunk came to while some of it failed, and `put_off` when it goes on. `aside` parks those that
  fail for good, and extends its result. `alone` runs a suspect chunk in a process of its own, with `alone_child`. `call_limits`
  gives their turns to calls that are limited over all processes.
- `lineage`: `stretching` takes the stretches of jobs that grow, and `ranging` cuts large files into some. `succession` starts jobs
  that wait for others. `source_lines` makes the payload of one from their lines.
- `removal`: `cleanup` deletes old bytes and repairs containers. `job_bytes` knows those of one job. `remains` removes and finds
  all that is left of a job that is erased. `erasures` proves that nothing is.
"""

from shared.pipeline.accept import Acceptance as Acceptance, Arrivals as Arrivals, accept_stage as accept_stage
from shared.pipeline.dispatch import (
    APART as APART,
    CURSOR_EVERY as CURSOR_EVERY,
    MOST as MOST,
    Dispatcher as Dispatcher,
    Enclosing as Enclosing,
    FinishCall as FinishCall,
    Overtaking as Overtaking,
    PutAhead as PutAhead,
    Waking as Waking,
)
from shared.pipeline.failing.alone import Alone as Alone
from shared.pipeline.failing.call_limits import (
    CallLimits as CallLimits,
    check_limits as check_limits,
    count_seconds as count_seconds,
)
from shared.pipeline.failing.so_far import SoFarStore as SoFarStore
from shared.pipeline.failing.work_stages import PROCESS as PROCESS, work_stages as work_stages
from shared.pipeline.feeding.fair import LEAST_WINDOW as LEAST_WINDOW
from shared.pipeline.feeding.feed import Feeder as Feeder
from shared.pipeline.feeding.ready import ReadyTable as ReadyTable
from shared.pipeline.finish import (
    Finisher as Finisher,
    FinishTools as FinishTools,
    event_of as event_of,
    is_finishing as is_finishing,
)
from shared.pipeline.finish_blobs import SHARDS as SHARDS, SPAN_BYTES as SPAN_BYTES, choose_shards as choose_shards
from shared.pipeline.halts import GRACE as GRACE, HaltFollower as HaltFollower, Halts as Halts
from shared.pipeline.line_parts import read_lines as read_lines
from shared.pipeline.lineage.ranging import RangeCall as RangeCall, RangeCutter as RangeCutter
from shared.pipeline.lineage.source_lines import SourceLines as SourceLines
from shared.pipeline.lineage.stretching import Stretching as Stretching
from shared.pipeline.lineage.succession import Succession as Succession, WakeWaiters as WakeWaiters
from shared.pipeline.outputs import (
    Manifest as Manifest,
    Outputs as Outputs,
    Ran as Ran,
    TotalsTable as TotalsTable,
    row_of_total as row_of_total,
    run_in_parts as run_in_parts,
)
from shared.pipeline.plan import (
    LARGEST as LARGEST,
    LONGEST as LONGEST,
    SMALLEST as SMALLEST,
    AnyPlan as AnyPlan,
    ChunkSizes as ChunkSizes,
    Plan as Plan,
    PlanStore as PlanStore,
    Speed as Speed,
    Speeds as Speeds,
    choose as choose,
    read_plan as read_plan,
)
from shared.pipeline.process import Processor as Processor, Tools as Tools
from shared.pipeline.removal.cleanup import (
    Net as Net,
    Orphans as Orphans,
    Retention as Retention,
    Rooms as Rooms,
    Unread as Unread,
    list_unread as list_unread,
    point_at as point_at,
)
from shared.pipeline.removal.erasures import SECOND_CHECK_AFTER as SECOND_CHECK_AFTER, Erasures as Erasures
from shared.pipeline.removal.job_bytes import MOST_OF_A_BATCH as MOST_OF_A_BATCH, JobBytes as JobBytes
from shared.pipeline.removal.remains import CONTAINERS as CONTAINERS, Remains as Remains
from shared.pipeline.results import (
    LOOKS_PROPERTY as LOOKS_PROPERTY,
    BusResults as BusResults,
    ChunkResult as ChunkResult,
    GroupBlobs as GroupBlobs,
    Opened as Opened,
    Received as Received,
    ResultStore as ResultStore,
    pack_result as pack_result,
    read_parked as read_parked,
    read_partial as read_partial,
    read_results as read_results,
)
from shared.pipeline.segments import (
    CUT_ABOVE as CUT_ABOVE,
    CUT_PARTIAL as CUT_PARTIAL,
    SEGMENT_BYTES as SEGMENT_BYTES,
    SEGMENT_CHUNKS as SEGMENT_CHUNKS,
    SEGMENT_PARTIAL as SEGMENT_PARTIAL,
    SHARD_BYTES as SHARD_BYTES,
    MergedPartial as MergedPartial,
    choose_cuts as choose_cuts,
)
from shared.pipeline.settle import (
    Settled as Settled,
    Settler as Settler,
    explain_seal as explain_seal,
    find_done as find_done,
    settle_stage as settle_stage,
)
from shared.pipeline.start import DirectPuts as DirectPuts, Planning as Planning, Starter as Starter
from shared.pipeline.streams import LINES as LINES, STREAM_MOST as STREAM_MOST, Stream as Stream
from shared.pipeline.sweep import (
    QueueFronts as QueueFronts,
    Stranded as Stranded,
    Sweep as Sweep,
    WaitingResults as WaitingResults,
)
