"""Gates: work that must not start before an event, and must start at once everywhere when the event comes.

Reading order:

- `gate_decisions`: the state machine, without requests.
- `state`: the gate's blob.
- `gates`: every change is one conditional write.
- `held`, `held_work`: hold work behind a gate.
- `batches`, `slices`, `outflow`: release it, a hundred at a time, by one instance or by several.
- `releaser`: the reaction to a signal, and the tick's part.
- `receipts`: which node saw which epoch, and when the first chunk of an opening began.
- `lateness`: what receipts say together.
"""

from shared.gate.batches import PARALLEL, Batches
from shared.gate.gate_decisions import close_gate, is_released, must_dispatch, open_gate, schedule
from shared.gate.gates import Changed, Gates
from shared.gate.held import HeldEntry, HeldSummary, HeldTable
from shared.gate.held_work import NEVER_EXPIRES, TAKES_FOR, HeldWork
from shared.gate.lateness import Spread, spread, stragglers
from shared.gate.outflow import Outflow
from shared.gate.receipts import FirstChunk, FirstChunks, OneMark, Receipt, ReceiptTable, SeenBy, this_node
from shared.gate.releaser import GateTick, Releaser, send_signal
from shared.gate.slices import Slices
from shared.gate.state import GateState, Opening, Reading, change_fields, check_name, is_name, timestamp

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
