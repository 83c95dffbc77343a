"""The parts of a process manager of your own: docs/processes.md."""

from shared.azure import Destination as Destination
from shared.process_parts import (
    ProcessHomes as ProcessHomes,
    ProcessParts as ProcessParts,
    process_entities as process_entities,
    process_tick as process_tick,
    process_triggers as process_triggers,
)
from shared.processes import (
    Command as Command,
    Event as Event,
    Incoming as Incoming,
    ProcessDecision as ProcessDecision,
    ReplyClass as ReplyClass,
    Timeout as Timeout,
)
from shared.telemetry import OF_PROCESSES as OF_PROCESSES
