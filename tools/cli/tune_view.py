"""How `sluice tune` shows things: tables for people, documented JSON for programs."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from rich.table import Table

from shared.concurrency import Decision, Fleet, Trace
from shared.simulation import Outcome
from shared.topology import URGENT
from shared.usage import Prices, price
from tools.cli.moments import show_moment


def decision_document(decision: Decision) -> dict[str, object]:
    """Return a decision as JSON has it."""
    return {
        "tasks": decision.tasks,
        "at": decision.at.astimezone(UTC).isoformat(timespec="seconds"),
        "terms": dict(decision.terms),
        "binding": decision.binding,
        "reason": decision.reason,
        "rules_version": decision.rules_version,
        "observed": msgspec.to_builtins(decision.observation),
    }


def fleet_document(fleet: Fleet, now: datetime) -> dict[str, object]:
    """Return the fleet's shared state as JSON."""
    return {
        "decision": decision_document(fleet.decision) if fleet.decision else None,
        "urgent_until": fleet.lane.until.astimezone(UTC).isoformat(timespec="seconds") if fleet.lane else None,
        "rules_version": fleet.rules.version,
        "governors": {name: round(one.share, 4) for name, one in sorted(fleet.governors.items())},
        "processes": [
            {
                "name": one.name,
                "in_flight": one.in_flight,
                "done": one.done,
                "seconds_each": _each(one.busy, one.done),
                "share": round(one.share, 4),
            }
            for one in fleet.fresh(now)
        ],
    }


def fleet_table(fleet: Fleet, now: datetime) -> Table:
    """Return the fleet's shared state for a person."""
    table = Table(title="How many tasks may run", show_header=False)
    decision = fleet.decision
    if decision is None:
        table.add_row("tasks", "nothing was decided yet: no job was open at a tick")
    else:
        table.add_row("tasks", f"{decision.tasks}, since {show_moment(decision.at)} UTC")
        table.add_row("why", decision.reason)
        table.add_row("observed", _observed(decision))
        for name, term in decision.terms.items():
            binding = "  (binding)" if name == decision.binding else ""
            table.add_row(f"  {name}", f"{'none' if term is None else term}{binding}")
    version = fleet.rules.version
    table.add_row("rules", f"version {version}" if version else "built in: 10, 50 or 100 tasks by depth")
    lane = f"asked first; more may come until {show_moment(fleet.lane.until)} UTC" if fleet.lane else "holds nothing"
    table.add_row(f"queue {URGENT}", lane)
    for name, governor in sorted(fleet.governors.items()):
        when = f", pushed back at {show_moment(governor.slowed_at)}" if governor.slowed_at else ""
        table.add_row(f"governor {name}", f"{governor.share:.0%} of the full rate{when}")
    for worker in fleet.fresh(now):
        each = _each(worker.busy, worker.done)
        cpu = "" if worker.cpu is None else f", {worker.cpu:.2f} cores"
        slow = "" if worker.share >= 1 else f", at {worker.share:.0%} of the full rate"
        table.add_row(
            f"process {worker.name[:8]}",
            f"{worker.in_flight} in work, {worker.done} done{'' if each is None else f', {each:.3g} s each'}{cpu}{slow}",
        )
    return table


def history_table(decisions: Iterable[Decision]) -> Table:
    """Return decisions for a person."""
    table = Table("at (UTC)", "tasks", "binding", "rules", "reason", "observed", title="Decisions")
    for one in decisions:
        rules = str(one.rules_version or "built in")
        table.add_row(show_moment(one.at), str(one.tasks), one.binding, rules, one.reason, _observed(one))
    return table


def _observed(decision: Decision) -> str:
    seen = decision.observation
    if seen is None:
        return ""
    each = [
        f"{value:.3g} {unit} each"
        for value, unit in ((seen.latency, "s"), (seen.payload_bytes, "stored bytes"))
        if value is not None
    ]
    return ", ".join([f"{seen.depth} messages", *each])


def outcome_document(outcome: Outcome, prices: Prices) -> dict[str, object]:
    """Return the outcome of a replay as JSON."""
    return {
        "rules": outcome.name,
        "messages": outcome.messages,
        "p50": round(outcome.delay(50), 3),
        "p95": round(outcome.delay(95), 3),
        "most_tasks": outcome.most_tasks,
        "requests": outcome.count() - outcome.count("bus"),
        "bus": outcome.count("bus"),
        "price": str(price(outcome.usage, prices).total),
    }


def outcomes_table(trace: Trace, outcomes: Sequence[Outcome], prices: Prices) -> Table:
    """Return the outcomes of replays for a person."""
    header = trace.header
    what = f"a {header.what} trace{'' if header.seed is None else f' (seed {header.seed})'}, {outcomes[0].messages} messages"
    columns = ("rules", "p50", "p95", "most tasks", "storage requests", "bus operations", "price")
    table = Table(*columns, title=f"What they would have done with {what}", caption=f"prices: {prices}")
    for one in outcomes:
        table.add_row(
            one.name,
            f"{one.delay(50):.2f} s",
            f"{one.delay(95):.2f} s",
            str(one.most_tasks),
            f"{one.count() - one.count('bus'):,}",
            f"{one.count('bus'):,}",
            f"{price(one.usage, prices).total:.4f}",
        )
    return table


def _each(busy: float, done: int) -> float | None:
    return round(busy / done, 4) if done else None
