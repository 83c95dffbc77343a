"""Gates: work that must not start before an event, and must start at once everywhere when the event comes.

Reading order:

- `state`: the gate's blob, and the state machine, without requests.
- `held_work`, `held`: hold work behind a gate. Every change of a gate is one conditional write.
- `outflow`: release it, a hundred at a time, by one instance or by several.
- `releaser`: the reaction to a signal, and the tick's part.
- `receipts`: which node saw which epoch, when the first chunk of an opening began, and what receipts say together.
"""

from shared.gate.held import HeldEntry, HeldSummary, HeldTable
from shared.gate.held_work import NEVER_EXPIRES, TAKES_FOR, Changed, Gates, HeldWork
from shared.gate.outflow import PARALLEL, Batches, Outflow, Slices
from shared.gate.receipts import (
    FirstChunk,
    FirstChunks,
    OneMark,
    Receipt,
    ReceiptTable,
    SeenBy,
    Spread,
    spread,
    stragglers,
    this_node,
)
from shared.gate.releaser import GateTick, Releaser, send_signal
from shared.gate.state import (
    GateState,
    Opening,
    Reading,
    change_fields,
    check_name,
    close_gate,
    is_name,
    is_released,
    must_dispatch,
    open_gate,
    schedule,
    timestamp,
)

__all__ = [
    "NEVER_EXPIRES",
    "PARALLEL",
    "TAKES_FOR",
    "Batches",
    "Changed",
    "FirstChunk",
    "FirstChunks",
    "GateState",
    "GateTick",
    "Gates",
    "HeldEntry",
    "HeldSummary",
    "HeldTable",
    "HeldWork",
    "OneMark",
    "Opening",
    "Outflow",
    "Reading",
    "Receipt",
    "ReceiptTable",
    "Releaser",
    "SeenBy",
    "Slices",
    "Spread",
    "change_fields",
    "check_name",
    "close_gate",
    "is_name",
    "is_released",
    "must_dispatch",
    "open_gate",
    "schedule",
    "send_signal",
    "spread",
    "stragglers",
    "this_node",
    "timestamp",
]
