"""Alerts: what needs a person, as far as storage knows it, each with the page that helps. Pure.

The other alerts are rules over the log: they are in Azure Monitor.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from capabilities.console.snapshot import OpenWork
from shared.concurrency import Fleet
from shared.ledger import JobState
from shared.operating import Overview, QueueLook
from shared.parked import CauseSums
from shared.watch import Standing, find_silence, name_kind

#: A tick follows each pointer within a minute or two.
TICK_SILENT: Final = timedelta(minutes=5)
#: Work that waits this long while no process reports has no worker.
NO_WORKER: Final = timedelta(minutes=2)
_Link = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that needs a person: its kind, what was found, what to do, and where."""

    kind: str
    found: str
    remedy: str
    address: str
    #: A time and no duration: the page would change with every second.
    since: datetime | None = None
    #: When it was last found so, if that is not the moment of the page.
    seen_at: datetime | None = None
    #: An alert that is not grave is a notice: nothing is lost by waiting.
    is_grave: bool = True
    #: Where a person says that it is done. Empty: it ends by itself.
    done: str = ""


def find_alerts(  # noqa: PLR0913 - each is another part of the snapshot
    *,
    fleet: Fleet,
    standing: Standing,
    work: OpenWork,
    queues: Sequence[QueueLook],
    gates: Sequence[Overview],
    causes: Sequence[CauseSums],
    now: datetime,
    link: _Link,
) -> list[Alert]:
    """Return the alerts, the grave ones first."""
    found = [
        *_of_tick(work, standing, now, link),
        *_of_workers(fleet, queues, now, link),
        *_of_needs(standing, link),
        *_of_gates(gates, link),
        *_of_parked(causes, link),
    ]
    return sorted(found, key=lambda alert: not alert.is_grave)


def _of_tick(work: OpenWork, standing: Standing, now: datetime, link: _Link) -> Iterator[Alert]:
    # By the time of the reading: what was read an hour ago says nothing of now.
    silence = find_silence(standing.hours, standing.named or now)
    if silence is not None:
        yield Alert(silence.words, silence.found, silence.remedy, link("now"), is_grave=silence.is_grave)
    elif work.oldest is not None and now - work.oldest > TICK_SILENT:
        yield Alert(
            "tick silent",
            "the tick does not follow work that is due",
            "check whether the app runs and its timer is on: sluice doctor",
            link("now"),
            work.oldest,
        )


def _of_workers(fleet: Fleet, queues: Sequence[QueueLook], now: datetime, link: _Link) -> Iterator[Alert]:
    oldest = min((one.oldest_at for one in queues if one.oldest_at), default=None)
    if oldest is not None and now - oldest > NO_WORKER and not fleet.fresh(now):
        yield Alert(
            "work waits",
            "messages wait, and no process reports",
            "check whether the app runs: sluice doctor",
            link("now"),
            oldest,
        )


def _of_needs(standing: Standing, link: _Link) -> Iterator[Alert]:
    for need in standing.needs:
        done = link("need", kind=need.kind, about=need.about)
        address = link("job", job=need.about) if need.is_of_job else done
        found = f"{need.about}: {need.found}"
        yield Alert(need.words, found, need.remedy, address, need.since, need.at, need.is_grave, done)
    for kind in standing.more:
        shown = sum(need.kind == kind for need in standing.needs)
        state = kind.partition("-")[2]
        address = link("jobs", state=state if state in {one.value for one in JobState} else "")
        yield Alert(name_kind(kind), f"there are more than these {shown}", "the list of jobs has all of them", address)


def _of_gates(gates: Sequence[Overview], link: _Link) -> Iterator[Alert]:
    for row in gates:
        address = link("gate", gate=row.gate)
        if row.problem:
            yield Alert("gate unreadable", row.problem, "a gate with a fault counts as closed", address)
        elif row.holds_in_silence and row.held.oldest is not None:
            yield Alert(
                "gate holds",
                f"{row.gate} holds {row.held.count:,} and was never opened",
                "check its spelling, or open it",
                address,
                row.held.oldest,
                is_grave=False,
            )


def _of_parked(causes: Sequence[CauseSums], link: _Link) -> Iterator[Alert]:
    if causes:
        number = sum(cause.open + cause.over for cause in causes)
        yield Alert(
            "parked",
            f"{number:,} in {len(causes)} {'cause' if len(causes) == 1 else 'causes'}",
            "each cause says what to do",
            link("parked"),
            is_grave=False,
        )
