"""Output of `sluice cost compare`: crossing points, and the side of the measured work."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from rich.table import Table

from tools.cli.cost_view import money, plain
from tools.cli.screen import Screen
from tools.planning.comparison import InlineOrBlob, PushOrPoll, Work, a_day, wakes
from tools.planning.wake_prices import Waking


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two choices, and the work that was measured."""

    push: PushOrPoll
    payload: InlineOrBlob
    work: tuple[Work, ...]
    span: timedelta
    wakings: tuple[Waking, ...] = ()
    #: Stored bytes of a payload, measured or given.
    stored: int | None = None

    @property
    def wakes_a_day(self) -> Decimal:
        """How often per day work came to empty queues."""
        return a_day(wakes(self.work), self.span)

    @property
    def is_push_cheaper(self) -> bool:
        """On which side the measured work is."""
        return self.wakes_a_day < self.push.crossing


def print_out(found: Comparison, screen: Screen) -> None:
    """Print both choices with their crossing points."""
    push, payload = found.push, found.payload
    screen.print(
        f"Push or poll: a poller every {push.interval:g} s costs {money(push.polling)} a day; to be started by "
        f"{push.permits} permit(s) of {push.tasks} tasks costs {money(push.an_awakening)} each time. Below "
        f"{push.crossing:,} awakenings a day push is cheaper. Measured: {found.wakes_a_day:.1f} a day: "
        f"{'push' if found.is_push_cheaper else 'polling'}."
    )
    screen.print(
        f"Messages or a blob: a message costs {money(payload.inline(1))}, a message and a blob {money(payload.blob())}. "
        f"Above {payload.crossing:,} stored bytes ({payload.crossing // 1024} KiB) the blob is cheaper than the "
        f"messages that the bytes would need.{_side(found)}"
    )
    if found.wakings:
        screen.show(_waking_table(found))
    screen.print(f"Prices: {push.prices}")


def _side(found: Comparison) -> str:
    if found.stored is None:
        return ""
    inline, blob = found.payload.inline(found.stored), found.payload.blob()
    return f" Yours of {found.stored:,}: {'a blob' if blob < inline else 'messages'}, {money(min(inline, blob))}."


def _waking_table(found: Comparison) -> Table:
    columns = ("SLUICE_NOTIFY", "permits", "in vain", "looks", "woke nobody", found.push.prices.currency)
    table = Table(*columns, title="Waking for the measured dispatches")
    for one in found.wakings:
        looks = f"{one.depth_looks + one.slot_looks:,}"
        amount = money(one.amount(found.push.tasks, found.push.prices))
        table.add_row(one.policy.value, f"{one.permits:,}", f"{one.in_vain:,}", looks, f"{one.missed:,}", amount)
    return table


def document(found: Comparison) -> dict[str, object]:
    """Return the comparison as JSON has it."""
    return {
        "polling_a_day": plain(found.push.polling),
        "an_awakening": plain(found.push.an_awakening),
        "crossing_awakenings_a_day": found.push.crossing,
        "measured_awakenings_a_day": float(round(found.wakes_a_day, 3)),
        "cheaper": "push" if found.is_push_cheaper else "polling",
        "blob_is_cheaper_above_bytes": found.payload.crossing,
        "wakings": [
            {
                "policy": one.policy.value,
                "permits": one.permits,
                "in_vain": one.in_vain,
                "looks": one.depth_looks + one.slot_looks,
                "woke_nobody": one.missed,
                "amount": plain(one.amount(found.push.tasks, found.push.prices)),
            }
            for one in found.wakings
        ],
        "prices": str(found.push.prices),
    }
