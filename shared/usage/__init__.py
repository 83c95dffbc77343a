"""The cost of requests: of a job, of an idle day, of a month to come, and of today against its budget.

Reading order: `bill` (prices, and one job), `diary` (a day, against its budget), `month` (also a day without work).
"""

from shared.usage.bill import (
    BUILT_IN as BUILT_IN,
    BUS_OPERATIONS_OF_A_RESULT as BUS_OPERATIONS_OF_A_RESULT,
    INSTANCE_GB as INSTANCE_GB,
    MILLION as MILLION,
    REQUESTS_OF_A_MESSAGE as REQUESTS_OF_A_MESSAGE,
    TAKEN_AT_ONCE as TAKEN_AT_ONCE,
    Bill as Bill,
    Functions as Functions,
    JobBill as JobBill,
    Prices as Prices,
    add as add,
    bill_of as bill_of,
    count_requests as count_requests,
    load as load,
    price as price,
    take_counts as take_counts,
    useful as useful,
)
from shared.usage.diary import (
    AT_LEAST_EVERY as AT_LEAST_EVERY,
    MOST_UNNOTED as MOST_UNNOTED,
    DayBudget as DayBudget,
    DayNotes as DayNotes,
    Diary as Diary,
    keep as keep,
    price_causes as price_causes,
    read_day as read_day,
    read_notes as read_notes,
)
from shared.usage.month import (
    BASE_POISON_MINUTES as BASE_POISON_MINUTES,
    DAY as DAY,
    MONTH as MONTH,
    POISON_MINUTES as POISON_MINUTES,
    Asker as Asker,
    Installation as Installation,
    Month as Month,
    Who as Who,
    WorkVolume as WorkVolume,
    demand_of_arrivals as demand_of_arrivals,
    demand_of_jobs as demand_of_jobs,
    forecast_month as forecast_month,
    idle_day as idle_day,
    polling_seconds as polling_seconds,
    price_idle_month as price_idle_month,
    requests_of_chunks as requests_of_chunks,
    requests_of_job as requests_of_job,
    requests_of_replay as requests_of_replay,
    requests_of_rerun as requests_of_rerun,
)
