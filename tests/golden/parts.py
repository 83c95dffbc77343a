"""What the golden tests take from the code: every import in one place, so that a move changes this file only."""

# ruff: noqa: F401
from msgspec import Raw, json, structs

from capabilities.registration import seats
from capabilities.registration.reasons import OrderReason
from shared import errors
from shared.azure import BlobStore
from shared.azure.connections import Connections
from shared.azure.meter import Cause, RequestKind, RequestTally
from shared.azure.pushback import Governor
from shared.concurrency.fleet import Decision, FeedRow, Fleet, FleetChange, FleetTable, Resting, RulesInForce, Worker
from shared.concurrency.rules import Observation, RulesBlob, parse as parse_rules
from shared.gate.held import HeldEntry, HeldTable
from shared.gate.receipts import FirstChunk, FirstChunks, Receipt, ReceiptTable, SeenBy
from shared.gate.rolls import RollPlace, make_roll, read_roll
from shared.gate.state import ChangeKind, GateChange, GateState, Opening, decode as decode_gate, encode as encode_gate
from shared.gate.timetables import TimetableRow, Timetables
from shared.grammar import shard_partition
from shared.ids.book import read_log, spill
from shared.ids.sequence import KEPT, NodeReport, Signature, close, create, parse as parse_sequence, reserve, resume
from shared.ledger.job_decisions import Balance
from shared.ledger.night_table import NightTable
from shared.ledger.records import (
    ChunkRow,
    ChunkState,
    Job,
    JobState,
    PlanBlob,
    PlanText,
    Portion,
    Risk,
    Sources,
    StretchRow,
    Told,
    Totals,
)
from shared.ledger.table_ledger import TableLedger
from shared.messages import (
    STREAMS_VERSION,
    ChunkMessage,
    Completed,
    DispatchMessage,
    FeedCall,
    FileRange,
    Finish,
    FirstChunkMark,
    Permit,
    PortionMessage,
    Result,
    Results,
    Segment,
    Shard,
    decode,
    decode_permit,
    encode,
    encode_permit,
)
from shared.operating.audit import AuditedAct, AuditTable
from shared.operating.replay import ReplayFate, ReplayPace, Selection, SentEntry
from shared.operating.replay_record import Replay, ReplayState, ReplayTable, Wave, WaveOut
from shared.outbox import JOB_EVENTS, BusAnnouncements, OutgoingMessage
from shared.parked.cause_index import CauseIndex, Member
from shared.parked.entry import (
    ACCEPT,
    DOOR,
    NO_JOB,
    Entry,
    EntryState,
    chunk_key,
    content_key,
    finish_key,
    result_key,
    segment_key,
    shard_key,
    submission_note,
    transactions_key,
)
from shared.parked.overflow import Overflow
from shared.parked.parked_table import ParkedTable
from shared.parked.parking import door_key
from shared.parked.poison_policy import Attempts, FailedAttempt, Mark
from shared.payload import CutRange, Limits, Ranges
from shared.payload.frames import Frame
from shared.payload.stretches import StretchFields, StretchStore
from shared.payload.submission import (
    DeclaredFields,
    PayloadFields,
    Stretched,
    SubmissionFields,
    open_envelope,
    read_submission,
    write_submission,
)
from shared.pending import (
    DEADLINE_POINTER,
    DISPATCH_POINTER,
    FINISH_POINTER,
    GATE_POINTER,
    JOB_POINTER,
    ORPHANS_POINTER,
    OUTBOX_POINTER,
    RETENTION_POINTER,
    ROOM_POINTER,
    TIMETABLE_POINTER,
    PendingTable,
    Pointer,
)
from shared.pipeline.failing.aside import TRANSACTIONS, ParkedTransaction, list_parked
from shared.pipeline.failing.put_off import Waits
from shared.pipeline.failing.so_far import SoFarStore
from shared.pipeline.failing.work_stages import FINISH, PROCESS
from shared.pipeline.feeding.ready import ReadyJob, ReadyTable
from shared.pipeline.finish_blobs import FinishPlan, SegmentBlobs, SegmentResult, ShardResult, SpanResult
from shared.pipeline.outputs import Outputs, PartWriter, Ran, TotalsTable, TotalsWriter, account_key, manifest_of
from shared.pipeline.plan import PartPlace, PayloadSource, Plan, PlannedChunk, PlanStore
from shared.pipeline.results import BusResults, ResultStore, pack_result, read_partial, read_result, unpack_result
from shared.pipeline.settle import SETTLE
from shared.pipeline.streams import LINES, PARKED, StreamWriter, split_streams
from shared.processes import Commit, Event, Memento, MementoStore, TableHomes
from shared.refusals import Reason, ResultReason
from shared.signals import BusPermits, BusSignals, Hint
from shared.usage.diary import Diary, read_day
from shared.watch import Act, Need, NeedKind, Point, SpentUntil, WatchTable
from shared.workloads import Left, PartialPiece, Total, shard_of
from shared.zstd import unpack
