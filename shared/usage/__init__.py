"""The cost of requests: of a job, of an idle day, of a month to come, and of today against its budget.

Reading order: `prices`, `bill`, `job_bill` (one job), `diary`, `idle` (a day without work), `month`, `budget`.
"""

from shared.usage.bill import Bill, price, useful
from shared.usage.budget import DayBudget
from shared.usage.diary import MOST_UNNOTED, Diary, keep, read_day
from shared.usage.idle import DAY, Asker, Installation, Who, idle_day, polling_seconds
from shared.usage.job_bill import REQUESTS_OF_A_MESSAGE, TAKEN_AT_ONCE, JobBill, bill_of
from shared.usage.month import (
    CHUNKS_A_TABLE_REQUEST,
    MONTH,
    OF_A_CHUNK,
    Month,
    WorkVolume,
    demand_of_arrivals,
    demand_of_jobs,
    forecast_month,
    price_idle_month,
)
from shared.usage.prices import BUILT_IN, MILLION, Functions, Prices, load

__all__ = [
    "BUILT_IN",
    "CHUNKS_A_TABLE_REQUEST",
    "DAY",
    "MILLION",
    "MONTH",
    "MOST_UNNOTED",
    "OF_A_CHUNK",
    "REQUESTS_OF_A_MESSAGE",
    "TAKEN_AT_ONCE",
    "Asker",
    "Bill",
    "DayBudget",
    "Diary",
    "Functions",
    "Installation",
    "JobBill",
    "Month",
    "Prices",
    "Who",
    "WorkVolume",
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
    "useful",
]
