"""What the golden tests take from the code: every import in one place, so that a move changes this file only."""

# ruff: noqa: F401
from msgspec import Raw, structs

from shared import errors
from shared.audit import AuditTable, Command
from shared.concurrency.decide import Decision
from shared.concurrency.fleet import Fleet, RulesInForce, Worker
from shared.concurrency.fleet_table import Change, FleetTable
from shared.concurrency.governor import Governor
from shared.concurrency.observation import Observation
from shared.concurrency.rules_blob import RulesBlob
from shared.concurrency.rules_text import parse as parse_rules
from shared.connections import Connections
from shared.gate.held import HeldEntry, HeldTable
from shared.gate.receipts import Receipt, ReceiptTable, SeenBy
from shared.gate.state import Change as GateChange
from shared.gate.state import ChangeKind, GateState, Opening
from shared.gate.state import decode as decode_gate
from shared.gate.state import encode as encode_gate
from shared.ids import BlobStore
from shared.ids.event import Account, Signature
from shared.ids.log import read_log, spill
from shared.ids.sequence import KEPT, close, created, reserve, resume
from shared.ids.sequence import parse as parse_sequence
from shared.ledger.balance import Balance
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob, Risk, Tally, Totals
from shared.ledger.table_ledger import TableLedger
from shared.outbox import JOB_EVENTS, BusAnnouncements, OutgoingMessage
from shared.parked.door import door_key
from shared.parked.entry import ACCEPT, DOOR, NO_JOB, Entry, EntryState, chunk_key, content_key, finish_key, result_key
from shared.parked.parked_table import ParkedTable
from shared.parked.policy import Attempts, Mark, submission_note
from shared.parked.replay import Fate
from shared.payload import Limits
from shared.payload.envelope import open_envelope
from shared.payload.form import PayloadFields
from shared.payload.reasons import Reason
from shared.payload.submission import (
    DeclaredFields,
    SubmissionFields,
    read_submission,
    write_submission,
)
from shared.pending import (
    DISPATCH_POINTER,
    FINISH_POINTER,
    GATE_POINTER,
    JOB_POINTER,
    ORPHANS_POINTER,
    OUTBOX_POINTER,
    RETENTION_POINTER,
    ROOM_POINTER,
    PendingTable,
    Pointer,
)
from shared.pipeline.chunk_result import ResultStore, read_partial, read_result
from shared.pipeline.manifest import manifest_of
from shared.pipeline.merge import Merger
from shared.pipeline.messages import (
    Chunk,
    Completed,
    Dispatch,
    Finish,
    Outcome,
    Permit,
    Result,
    decode,
    decode_permit,
    encode,
    encode_permit,
)
from shared.pipeline.outputs import Outputs, PartWriter
from shared.pipeline.parts import Ran
from shared.pipeline.plan import Plan, PlannedChunk, Source
from shared.pipeline.plan_store import PlanStore
from shared.pipeline.process import FINISH, PROCESS
from shared.pipeline.received import SETTLE
from shared.pipeline.received import Reason as ResultReason
from shared.pipeline.send_result import BusResults
from shared.pipeline.totals import TotalsTable, TotalsWriter, account_key
from shared.signals import BusPermits, BusSignals, Hint
from shared.usage.diary import Diary, noted_on
from shared.usage.requests import Kind
from shared.usage.tally import Cause
from shared.usage.tally import Tally as RequestTally
from shared.workloads import Total
