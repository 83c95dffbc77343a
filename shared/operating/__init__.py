"""The acts of an operator, each audited.

Reading order:

- `audit`: a row before the effect, its result after
- `gate_acts`: gates are opened and closed; all gates, with the work behind each
- `forecast`: the jobs, seconds and price of an opening. `forecast_check` compares it with the outcome,
  and `job_pace` says how fast jobs of a size ended lately
- `act_forecast`: what an act on jobs or a replay would do, in the sentence of command and console
- `timetable_acts`: timetables are set and ended, and their next opening is planned
- `job_acts`: jobs are paused and resumed, rules put in force; a job with everything around it, and the lines that it made
- `erase_acts`: jobs are erased. `keeping` says what the account keeps of removed blobs
- `standing`: what needs a person now, for the command and the console
- `prefixes`: the one name that a person typed the beginning of
- `parked_acts`: parked messages are replayed by cause, or discarded; the transactions of each
- `replay`, `replay_record`: a selection is replayed as a row, which any process steps
- `listing`, `columns`: the columns of lists, for the command and the console
- `run_diff`: the totals of two runs are compared
- `dry_run`: chunks of a job run again without writing, and compared with their results; `differences` compares
"""

from shared.operating.act_forecast import (
    ActForecaster as ActForecaster,
    ReplayForecast as ReplayForecast,
    describe_act as describe_act,
    describe_replay as describe_replay,
    may_act as may_act,
)
from shared.operating.audit import (
    ActKey as ActKey,
    AuditedAct as AuditedAct,
    AuditTable as AuditTable,
    RecordedAct as RecordedAct,
)
from shared.operating.columns import (
    CAUSES as CAUSES,
    ENTRIES as ENTRIES,
    GATES as GATES,
    JOBS as JOBS,
    REPLAYS as REPLAYS,
    JobRow as JobRow,
    row_of_job as row_of_job,
)
from shared.operating.differences import (
    AccountChange as AccountChange,
    Counted as Counted,
    LineSum as LineSum,
    Sides as Sides,
    TotalsDifference as TotalsDifference,
)
from shared.operating.dry_run import (
    ChunkDifference as ChunkDifference,
    ChunkFailure as ChunkFailure,
    DryRun as DryRun,
    DryRunner as DryRunner,
    MissingResult as MissingResult,
    choose_chunks as choose_chunks,
)
from shared.operating.erase_acts import JobEraser as JobEraser, describe_proof as describe_proof
from shared.operating.finding import (
    LONGEST as LONGEST,
    NEWEST as NEWEST,
    Finder as Finder,
    Hit as Hit,
    HitKind as HitKind,
)
from shared.operating.forecast import (
    Forecast as Forecast,
    ForecastNote as ForecastNote,
    GateForecaster as GateForecaster,
    Happened as Happened,
    describe_check as describe_check,
)
from shared.operating.forecast_check import ForecastCheck as ForecastCheck
from shared.operating.gate_acts import (
    GateActResult as GateActResult,
    GateReader as GateReader,
    Operator as Operator,
    Overview as Overview,
    describe_gate as describe_gate,
    hash_seed as hash_seed,
    note_roll as note_roll,
)
from shared.operating.job_acts import (
    MOST_AT_THE_DOOR as MOST_AT_THE_DOOR,
    NOT_RECORDED as NOT_RECORDED,
    WRITTEN as WRITTEN,
    JobLook as JobLook,
    JobOperator as JobOperator,
    JobReader as JobReader,
    OutputKind as OutputKind,
    OutputReader as OutputReader,
    QueueLook as QueueLook,
    describe_refused as describe_refused,
    explain_pace as explain_pace,
    find_job_of_number as find_job_of_number,
    group_later as group_later,
    put_rules as put_rules,
    read_queue as read_queue,
    warn_of_older_processes as warn_of_older_processes,
)
from shared.operating.keeping import find_immutable as find_immutable, read_keeping as read_keeping
from shared.operating.listing import (
    Aside as Aside,
    HowFar as HowFar,
    ListColumn as ListColumn,
    StateMark as StateMark,
    Tone as Tone,
    Trend as Trend,
    describe_duration as describe_duration,
    tone_of as tone_of,
)
from shared.operating.night_acts import (
    MOST_ACTS as MOST_ACTS,
    NightAct as NightAct,
    NightOperator as NightOperator,
    choose_jobs as choose_jobs,
    explain_line as explain_line,
    judge_night as judge_night,
    put_in_order as put_in_order,
    sum_up as sum_up,
)
from shared.operating.parked_acts import (
    MOST_LINES as MOST_LINES,
    EntryReader as EntryReader,
    ParkedOperator as ParkedOperator,
)
from shared.operating.prefixes import LEAST as LEAST, complete_prefix as complete_prefix
from shared.operating.replay import (
    MOST_PICKS as MOST_PICKS,
    Replayer as Replayer,
    ReplayFate as ReplayFate,
    ReplayPace as ReplayPace,
    Selection as Selection,
    choose as choose,
    digest_entries as digest_entries,
    nobody as nobody,
    summarize_causes as summarize_causes,
    waves as waves,
)
from shared.operating.replay_record import (
    Replay as Replay,
    ReplayTable as ReplayTable,
    Wave as Wave,
    describe_end as describe_end,
    describe_fates as describe_fates,
    describe_progress as describe_progress,
    draw_owner as draw_owner,
    estimate as estimate,
)
from shared.operating.run_diff import DiffReader as DiffReader, RunDiff as RunDiff
from shared.operating.standing import find_needs as find_needs
from shared.operating.timetable_acts import Timetabler as Timetabler, TimetableResult as TimetableResult
