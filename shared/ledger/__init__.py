"""Jobs and their chunks: in flight, done, and the proof that nothing was lost or counted twice.

Reading order:

- `records` defines the data and its columns, `entities` how it is stored.
- `job_decisions`, `job_reruns`, `growth` and `settlement` decide. They make no request.
- `ledger` is the contract, with `change`: the one loop that changes a job.
- `table_ledger` is the store. Each write adds a stamp to its job, and the list of jobs is read here.
"""

from shared.ledger.entities import read_totals as read_totals, write_totals as write_totals
from shared.ledger.growth import (
    Planned as Planned,
    describe_growth as describe_growth,
    end_growth as end_growth,
    find_last_step as find_last_step,
    is_next as is_next,
    list_uncut as list_uncut,
    may_take as may_take,
    refuse_stretch as refuse_stretch,
    take_stretch as take_stretch,
    was_paused as was_paused,
)
from shared.ledger.job_decisions import (
    BY_ITSELF as BY_ITSELF,
    Balance as Balance,
    Collision as Collision,
    Turn as Turn,
    advance_cursor as advance_cursor,
    bury as bury,
    check_balance as check_balance,
    describe_state as describe_state,
    erase as erase,
    finish as finish,
    first_turn as first_turn,
    is_failed_entirely as is_failed_entirely,
    is_halted as is_halted,
    is_noted_ahead as is_noted_ahead,
    is_overdue as is_overdue,
    is_waiting as is_waiting,
    judge as judge,
    list_open as list_open,
    may_dispatch as may_dispatch,
    may_feed as may_feed,
    may_start as may_start,
    next_look as next_look,
    next_warning as next_warning,
    note_ahead as note_ahead,
    note_gate_passed as note_gate_passed,
    note_lane as note_lane,
    note_lost as note_lost,
    note_missing_plan as note_missing_plan,
    note_proof as note_proof,
    note_put_again as note_put_again,
    note_turn as note_turn,
    note_warning as note_warning,
    pause as pause,
    read_progress as read_progress,
    record_plan as record_plan,
    resume as resume,
    stop as stop,
)
from shared.ledger.job_reruns import refuse_rerun as refuse_rerun, rerun as rerun, takes_newest as takes_newest
from shared.ledger.ledger import (
    MOST_ROWS as MOST_ROWS,
    Ledger as Ledger,
    Listed as Listed,
    Written as Written,
    change as change,
    commit as commit,
    counting as counting,
    insert as insert,
)
from shared.ledger.night_table import NightLine as NightLine, NightTable as NightTable, night_of as night_of
from shared.ledger.precedence import (
    Passage as Passage,
    add_waiter as add_waiter,
    find_circle as find_circle,
    follow_others as follow_others,
    is_made_from as is_made_from,
    judge_predecessor as judge_predecessor,
    note_waits_at as note_waits_at,
    waits_now_for as waits_now_for,
)
from shared.ledger.records import (
    CLOSED as CLOSED,
    ENDED as ENDED,
    FINISHED as FINISHED,
    KEPT as KEPT,
    SEALED as SEALED,
    TOMBSTONES as TOMBSTONES,
    ChunkRow as ChunkRow,
    ChunkState as ChunkState,
    Job as Job,
    JobState as JobState,
    PlanBlob as PlanBlob,
    PlanText as PlanText,
    Portion as Portion,
    Risk as Risk,
    StretchRow as StretchRow,
    Told as Told,
    Totals as Totals,
)
from shared.ledger.settlement import (
    FRONT as FRONT,
    MERGED_MOST as MERGED_MOST,
    Fronted as Fronted,
    Fronts as Fronts,
    Settlement as Settlement,
    Silence as Silence,
    Watermark as Watermark,
    judge_silence as judge_silence,
    over_since as over_since,
    pause_too_large as pause_too_large,
    read_portion as read_portion,
    read_turn as read_turn,
    read_watermark as read_watermark,
    result_blob as result_blob,
    settle as settle,
    turn_of as turn_of,
)
from shared.ledger.table_ledger import (
    JOB_COLUMNS as JOB_COLUMNS,
    LISTED_EVERY as LISTED_EVERY,
    JobList as JobList,
    TableLedger as TableLedger,
    Wanted as Wanted,
)
