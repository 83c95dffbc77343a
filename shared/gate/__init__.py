"""Gates: work that must not start before an event, and must start at once everywhere when the event comes.

Reading order:

- `state`: the gate's blob, and the state machine, without requests.
- `timetables`: gates that open again and again, planned one opening ahead.
- `held_work`, `held`: hold work behind a gate. Every change of a gate is one conditional write.
- `rolls`: the order in which held orders start.
- `outflow`: release it, a hundred at a time, by one instance or by several.
- `releaser`: the reaction to a signal, and the tick's part.
- `receipts`: which node saw which epoch, when the first chunk of an opening began, and what receipts say together.
"""

from shared.gate.held import HeldEntry as HeldEntry, HeldSummary as HeldSummary, HeldTable as HeldTable
from shared.gate.held_work import (
    TAKES_FOR as TAKES_FOR,
    Changed as Changed,
    Gates as Gates,
    HeldWork as HeldWork,
)
from shared.gate.outflow import PARALLEL as PARALLEL, Batches as Batches, Outflow as Outflow, Slices as Slices
from shared.gate.receipts import (
    FirstChunk as FirstChunk,
    FirstChunks as FirstChunks,
    OneMark as OneMark,
    Receipt as Receipt,
    ReceiptTable as ReceiptTable,
    SeenBy as SeenBy,
    Spread as Spread,
    spread as spread,
    stragglers as stragglers,
    this_node as this_node,
)
from shared.gate.releaser import GateTick as GateTick, Releaser as Releaser
from shared.gate.rolls import Roll as Roll, Rolls as Rolls
from shared.gate.state import (
    FURTHEST as FURTHEST,
    GateState as GateState,
    Opening as Opening,
    Reading as Reading,
    after_open as after_open,
    change_fields as change_fields,
    check_name as check_name,
    close_gate as close_gate,
    end_timetable as end_timetable,
    is_name as is_name,
    is_of_timetable as is_of_timetable,
    is_released as is_released,
    must_dispatch as must_dispatch,
    open_gate as open_gate,
    schedule as schedule,
    timestamp as timestamp,
)
from shared.gate.timetables import (
    TIMETABLES as TIMETABLES,
    Timetable as Timetable,
    TimetableRow as TimetableRow,
    Timetables as Timetables,
    count_skipped as count_skipped,
    decide_step as decide_step,
    describe_timetable as describe_timetable,
)
