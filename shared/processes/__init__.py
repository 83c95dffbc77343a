"""Processes of many streams: homes of events, messages between them, and process managers. It knows no domain.

Reading order:

- `homes` is the contract of the event store, with states and decisions of aggregates; `table_homes` is the store.
  `mementos` keeps warm states, and `writer` takes many commands of one home.
- `bodies` has the formats of commands and events; `publisher` sends them in bundles, and slows whom a receiver cannot follow.
- `decisions` has the types of a process, from messages to one commit; `agenda` says what is due.
- `runtime` stores what a process decided, and `outgoing` sends what a home has unsent.
- `receiver` takes commands to aggregates; `follower` does what is due, and what a crash left. It
  has the core that each kind of process runs on.
"""

from shared.processes.agenda import (
    SHARDS as SHARDS,
    Agenda as Agenda,
    Alias as Alias,
    Note as Note,
    TimeoutRow as TimeoutRow,
    notes_of as notes_of,
)
from shared.processes.bodies import (
    EVENT_SHARDS as EVENT_SHARDS,
    MOST_COMMANDS as MOST_COMMANDS,
    Command as Command,
    EventRange as EventRange,
    decode_commands as decode_commands,
    decode_events as decode_events,
    read_known as read_known,
    shard_of as shard_of,
)
from shared.processes.decisions import (
    Case as Case,
    CaseOutcome as CaseOutcome,
    Handled as Handled,
    Incoming as Incoming,
    Process as Process,
    ProcessDecision as ProcessDecision,
    ReplyClass as ReplyClass,
    Timeout as Timeout,
)
from shared.processes.follower import (
    STUCK_AFTER as STUCK_AFTER,
    DueHints as DueHints,
    Follower as Follower,
    ProcessCore as ProcessCore,
    due_shards as due_shards,
)
from shared.processes.homes import (
    MOST_EVENTS as MOST_EVENTS,
    Commit as Commit,
    Decide as Decide,
    Event as Event,
    Fields as Fields,
    Head as Head,
    Heads as Heads,
    Home as Home,
    Homes as Homes,
    Memento as Memento,
    Proof as Proof,
    Sending as Sending,
    Verdict as Verdict,
)
from shared.processes.mementos import Mementos as Mementos
from shared.processes.outgoing import Outgoing as Outgoing, Removals as Removals
from shared.processes.publisher import (
    BusPublisher as BusPublisher,
    Pace as Pace,
    PaceLane as PaceLane,
    Parcel as Parcel,
    ReceiverLanes as ReceiverLanes,
    begin_in_time as begin_in_time,
    bundle_parcel as bundle_parcel,
    command_parcel as command_parcel,
    event_parcels as event_parcels,
    message_of as message_of,
    plain_parcel as plain_parcel,
)
from shared.processes.receiver import HotNotes as HotNotes, Receiver as Receiver
from shared.processes.runtime import (
    Runtime as Runtime,
    make_draft as make_draft,
    restore_process as restore_process,
    store_process as store_process,
)
from shared.processes.table_homes import MementoStore as MementoStore, TableHomes as TableHomes
from shared.processes.writer import Saved as Saved, SavedCommand as SavedCommand, Writer as Writer
