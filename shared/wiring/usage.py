"""What is counted over the whole installation, and the budget that is held against it."""

from shared.clock import Clock, SystemClock
from shared.connections import Connections
from shared.settings import Settings
from shared.usage.diary import Diary, noted_on
from shared.usage.prices import load
from shared.usage.spending import DayBudget


def diary(connections: Connections, *, clock: Clock | None = None) -> Diary:
    """Return the notes of this process; nothing is asked of storage yet."""
    table = connections.tables.get_table_client("usage")
    return Diary(table, connections.meter.tally, clock or SystemClock())


def day_budget(connections: Connections, settings: Settings) -> DayBudget:
    """Return the budget of the day; it costs a request a decision, and none where there is no budget."""
    table = connections.tables.get_table_client("usage")
    return DayBudget(budget=settings.budget_per_day, prices=load(), noted_on=lambda day: noted_on(table, day))
