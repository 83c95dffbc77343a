"""The parts of a process manager of your own: docs/processes.md."""

from shared.azure import Destination as Destination
from shared.processes import (
    Command as Command,
    Event as Event,
    Incoming as Incoming,
    ProcessDecision as ProcessDecision,
    ReplyClass as ReplyClass,
    Timeout as Timeout,
)
