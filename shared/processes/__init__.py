"""Processes of many streams: homes of events, messages between them, and process managers. It knows no domain.

Reading order:

- `homes` is the contract of the event store, with states and decisions of aggregates; `table_homes` is the store.
  `mementos` keeps warm states, and `writer` takes many commands of one home.
- `bodies` has the formats of commands and events; `publisher` sends them in bundles, and `rests` says who is slowed.
- `decisions` has the types of a process, from messages to one commit; `agenda` says what is due.
- `runtime` stores what a process decided, and `outgoing` sends what a home has unsent.
- `receiver` takes commands to aggregates; `follower` does what is due, and what a crash left.
"""

from shared.processes.agenda import SHARDS, Agenda, Alias, Note, TimeoutRow, notes_of
from shared.processes.bodies import (
    EVENT_SHARDS,
    MOST_COMMANDS,
    Command,
    EventRange,
    command_id,
    decode_commands,
    decode_events,
    shard_of,
)
from shared.processes.decisions import (
    Case,
    CaseOutcome,
    Handled,
    Incoming,
    Process,
    ProcessDecision,
    ReplyClass,
    Timeout,
)
from shared.processes.follower import STUCK_AFTER, DueHints, Follower, due_shards
from shared.processes.homes import (
    MOST_EVENTS,
    Aggregate,
    Commit,
    Decide,
    Event,
    Fields,
    Head,
    Heads,
    Home,
    Homes,
    Memento,
    OutsideIds,
    Proof,
    Sending,
    Verdict,
)
from shared.processes.mementos import Mementos
from shared.processes.outgoing import Outgoing, Removals, Routes
from shared.processes.publisher import (
    BusPublisher,
    Parcel,
    ReceiverLanes,
    bundle_parcel,
    command_parcel,
    event_parcels,
    message_of,
    plain_parcel,
)
from shared.processes.receiver import HotNotes, Receiver
from shared.processes.rests import Pace, PaceLane
from shared.processes.runtime import Runtime, restore_process, store_process
from shared.processes.table_homes import MementoStore, TableHomes
from shared.processes.writer import Saved, SavedCommand, Writer

__all__ = [
    "EVENT_SHARDS",
    "MOST_COMMANDS",
    "MOST_EVENTS",
    "SHARDS",
    "STUCK_AFTER",
    "Agenda",
    "Aggregate",
    "Alias",
    "BusPublisher",
    "Case",
    "CaseOutcome",
    "Command",
    "Commit",
    "Decide",
    "DueHints",
    "Event",
    "EventRange",
    "Fields",
    "Follower",
    "Handled",
    "Head",
    "Heads",
    "Home",
    "Homes",
    "HotNotes",
    "Incoming",
    "Memento",
    "MementoStore",
    "Mementos",
    "Note",
    "Outgoing",
    "OutsideIds",
    "Pace",
    "PaceLane",
    "Parcel",
    "Process",
    "ProcessDecision",
    "Proof",
    "Receiver",
    "ReceiverLanes",
    "Removals",
    "ReplyClass",
    "Routes",
    "Runtime",
    "Saved",
    "SavedCommand",
    "Sending",
    "TableHomes",
    "Timeout",
    "TimeoutRow",
    "Verdict",
    "Writer",
    "bundle_parcel",
    "command_id",
    "command_parcel",
    "decode_commands",
    "decode_events",
    "due_shards",
    "event_parcels",
    "message_of",
    "notes_of",
    "plain_parcel",
    "restore_process",
    "shard_of",
    "store_process",
]
