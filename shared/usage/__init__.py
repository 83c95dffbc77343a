"""The cost of requests: of a job, of an idle day, of a month to come, and of today against its budget.

Reading order: `prices`, `bill`, `job_bill` (one job), `diary`, `idle` (a day without work), `month`, `budget`.
"""

from shared.usage.bill import Bill, add, price, useful
from shared.usage.budget import DayBudget
from shared.usage.diary import AT_LEAST_EVERY, MOST_UNNOTED, DayNotes, Diary, keep, read_day, read_notes
from shared.usage.idle import DAY, Asker, Installation, Who, idle_day, polling_seconds
from shared.usage.job_bill import (
    BUS_OPERATIONS_OF_A_RESULT,
    INSTANCE_GB,
    REQUESTS_OF_A_MESSAGE,
    TAKEN_AT_ONCE,
    JobBill,
    bill_of,
    take_counts,
)
from shared.usage.month import (
    MONTH,
    Month,
    WorkVolume,
    demand_of_arrivals,
    demand_of_jobs,
    forecast_month,
    price_idle_month,
    requests_of_chunks,
)
from shared.usage.prices import BUILT_IN, MILLION, Functions, Prices, load

__all__ = [
    "AT_LEAST_EVERY",
    "BUILT_IN",
    "BUS_OPERATIONS_OF_A_RESULT",
    "DAY",
    "INSTANCE_GB",
    "MILLION",
    "MONTH",
    "MOST_UNNOTED",
    "REQUESTS_OF_A_MESSAGE",
    "TAKEN_AT_ONCE",
    "Asker",
    "Bill",
    "DayBudget",
    "DayNotes",
    "Diary",
    "Functions",
    "Installation",
    "JobBill",
    "Month",
    "Prices",
    "Who",
    "WorkVolume",
    "add",
    "bill_of",
    "demand_of_arrivals",
    "demand_of_jobs",
    "forecast_month",
    "idle_day",
    "keep",
    "load",
    "polling_seconds",
    "price",
    "price_idle_month",
    "read_day",
    "read_notes",
    "requests_of_chunks",
    "take_counts",
    "useful",
]
