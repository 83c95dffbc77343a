"""How `sluice cost` shows amounts: tables for people, one JSON shape per command for programs."""

from datetime import UTC, date, timedelta
from decimal import Decimal

from rich.table import Table

from shared.azure import CountedRequest, usage_of_counts
from shared.ledger import describe_state
from shared.usage import (
    AT_LEAST_EVERY,
    MOST_UNNOTED,
    TAKEN_AT_ONCE,
    Bill,
    DayNotes,
    JobBill,
    Month,
    Prices,
    price,
    useful,
)
from tools.cli.screen import Screen
from tools.planning.example import PRINTED, WHY_IT_DIFFERS, IdlePolling
from tools.planning.idle_modes import IdleModes

MILLION = 1_000_000


def print_job(bill: JobBill, screen: Screen) -> None:
    """Print the bill of a job beside its result."""
    job, table = bill.job, Table("why", "billed as", "requests", "amount", title=f"What job {bill.job.job} cost")
    for part in bill.parts:
        for charge, number, amount in part.bill.lines:
            table.add_row(f"{charge.cause}{part.mark}", charge.meter, f"{number:,}", money(amount))
    if bill.unpriced:
        table.add_row("noted before its meters were", "unknown", f"{bill.unpriced:,}", "not priced")
    table.add_section()
    table.add_row("in all", "", f"{bill.requests:,}", money(bill.total))
    screen.show(table)
    screen.print(
        f"{job.job} is {describe_state(job)}: {job.totals.accepted.items:,} of {job.items:,} transactions accepted, "
        f"{job.totals.rejected.items:,} rejected, {job.totals.parked.items:,} parked. "
        f"{bill.each:.4f} requests per transaction, {money(_million(bill.total, job.items))} per million transactions."
    )
    screen.print(
        f"One message for each transaction: {bill.one_by_one.requests:,} requests, {money(bill.one_by_one.total)}; "
        f"{by_the_batch(job.items, bill.prices)}. Computing, if chunks ran one at a time: {money(bill.computing)}."
    )
    screen.print(f"Prices: {bill.prices}")


def by_the_batch(items: int, prices: Prices) -> str:
    """Return the price of the same messages if 32 are received at a time."""
    requests = 2 * items + -(-items // TAKEN_AT_ONCE)
    amount = price(useful(queue=requests), prices).total
    return f"taken {TAKEN_AT_ONCE} at a time {requests:,}, {money(amount)}"


def job_document(bill: JobBill) -> dict[str, object]:
    """Return the bill of a job as JSON has it."""
    job = bill.job
    return {
        "job": job.job,
        "state": job.state.value,
        "items": job.items,
        **{part.name: _lines(part.bill) for part in bill.parts},
        "unpriced": bill.unpriced,
        "requests": bill.requests,
        "requests_a_transaction": float(round(bill.each, 6)),
        "amount": plain(bill.total),
        "amount_of_one_message_a_transaction": plain(bill.one_by_one.total),
        "computing_at_most": plain(bill.computing),
        "currency": bill.prices.currency,
        "prices": str(bill.prices),
    }


def _lines(bill: Bill) -> list[dict[str, object]]:
    return [
        {"meter": charge.meter, "cause": charge.cause, "requests": number, "amount": plain(amount)}
        for charge, number, amount in bill.lines
    ]


def print_month(found: Month, prices: Prices, screen: Screen) -> None:
    """Print the forecast of a month."""
    table = Table("what", "requests", prices.currency, title=f"A month like {found.demand.source}")
    for item in found.items:
        assumed = "" if item.is_proven else " [dim](assumed)[/dim]"
        table.add_row(f"{item.what}{assumed}", f"{item.requests:,}" if item.requests else "", money(item.amount))
    table.add_section()
    table.add_row("known items", "", money(found.total()))
    table.add_row("with assumed items", "", money(found.total(with_assumed=True)))
    screen.show(table)
    screen.print(f"Not in it: stored bytes, log ingestion, traffic, executions. Prices: {prices}")


def month_document(found: Month, prices: Prices) -> dict[str, object]:
    """Return the forecast as JSON has it."""
    items = [
        {"what": one.what, "requests": one.requests, "amount": plain(one.amount), "proven": one.is_proven}
        for one in found.items
    ]
    return {
        "source": found.demand.source,
        "chunks": found.demand.chunks,
        "items": items,
        "amount": plain(found.total()),
        "amount_with_assumed": plain(found.total(with_assumed=True)),
        "currency": prices.currency,
        "prices": str(prices),
    }


def print_day(when: date, notes: DayNotes, prices: Prices, screen: Screen) -> None:
    """Print the requests noted on a day, and until when."""
    counts = notes.counts
    table = Table("service", "entity", "operation", "why", "requests", prices.currency, title=f"Noted on {when} (UTC)")
    for (kind, cause), number in sorted(counts.items()):
        amount = price(usage_of_counts({CountedRequest(kind, cause): number}), prices).total
        table.add_row(kind.service, kind.entity, kind.operation, cause.value, f"{number:,}", money(amount))
    table.add_section()
    total = price(usage_of_counts(counts), prices).total
    table.add_row("in all", "", "", "", f"{sum(counts.values()):,}", money(total))
    screen.show(table)
    screen.print(_until(notes))
    screen.print(f"The app's own; the host's are with `sluice cost idle`. Prices: {prices}")


def _until(notes: DayNotes) -> str:
    when = f"a process notes its requests when there are {MOST_UNNOTED}, or after {AT_LEAST_EVERY // timedelta(hours=1)} hours"
    if not notes.noted_at:
        return f"No process has noted anything on this day so far: {when}."
    first, last = (
        f"{at.astimezone(UTC):%H:%M:%S}" for at in (min(notes.noted_at.values()), max(notes.noted_at.values()))
    )
    return (
        f"Counted by {len(notes.noted_at)} processes, until {first} by the one that noted first and {last} by the last one "
        f"(UTC): {when}. What they requested since is not in it."
    )


def day_document(when: date, notes: DayNotes, prices: Prices) -> dict[str, object]:
    """Return the requests noted on a day as JSON."""
    counts = notes.counts
    rows = [{**kind._asdict(), "cause": cause.value, "requests": number} for (kind, cause), number in counts.items()]
    return {
        "day": when.isoformat(),
        "counts": rows,
        "noted_at": {process: at.isoformat() for process, at in sorted(notes.noted_at.items())},
        "requests": sum(counts.values()),
        "amount": plain(price(usage_of_counts(counts), prices).total),
        "currency": prices.currency,
        "prices": str(prices),
    }


def print_example(example: IdlePolling, modes: IdleModes, prices: Prices, screen: Screen) -> None:
    """Print the published example, and the same idleness here."""
    table = Table("", "requests a day", "USD a month", title="200 threads that find nothing for 22 hours a day")
    table.add_row("one thread, once a second", f"{example.a_day:,}", plain(example.month_each.normalize()))
    table.add_row(f"{example.threads} threads", f"{example.a_day * example.threads:,}", f"{example.month:.2f}")
    table.add_row("as published", "", f"{PRINTED}")
    minute = IdlePolling(seconds=Decimal(60))
    table.add_row("one thread, once a minute", f"{minute.a_day:,}", plain(minute.month_each.normalize()))
    table.add_row("push: the listener makes no request", "0", "0")
    for mode, here in modes.known().items():
        amount = here * example.price / 10_000 * 30
        table.add_row(f"Sluice, everything always on, by {mode}", f"{here:,}", f"{amount:.2f}")
    screen.show(table)
    screen.print(f"Why the published sum differs: {WHY_IT_DIFFERS}.")
    screen.print(
        "All at 0.01 USD per 10,000 requests, the example's price. Today a queue request costs "
        f"{prices.requests['queue']} per 10,000. Prices: {prices}"
    )


def example_document(example: IdlePolling) -> dict[str, object]:
    """Return the example as JSON has it."""
    return {
        "requests_a_day": int(example.a_day),
        "month_each": plain(example.month_each.normalize()),
        "month": f"{example.month:.2f}",
        "printed": str(PRINTED),
        "why": WHY_IT_DIFFERS,
    }


def money(amount: Decimal) -> str:
    """Return an amount with as many digits as it takes to see it, and without an exponent."""
    # Rounded first: 0.9996 becomes 1.00.
    return f"{amount:,.2f}" if amount >= 1 else plain(Decimal(f"{amount:.3g}")) if amount else "0"


def plain(amount: Decimal) -> str:
    """Return an amount with all its digits, and without an exponent."""
    return f"{amount:f}"


def _million(amount: Decimal, items: int) -> Decimal:
    return amount * MILLION / max(1, items)
