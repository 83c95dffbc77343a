"""Alerts: what needs a person, as far as storage knows it, each with the page that helps. Pure.

The other alerts are rules over the log: they are in Azure Monitor.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from capabilities.console.snapshot import OpenWork
from shared.capability import NeedWords
from shared.ledger import JobState
from shared.operating import find_needs
from shared.parked import ParkedCount
from shared.watch import PARKED, SILENT, TICK, Need, NeedKind, Standing, find_last_point, name_kind

#: A tick writes its first point within a minute or two.
TICK_SILENT: Final = timedelta(minutes=5)
#: Needs of one kind that the page shows.
MOST_OF_A_KIND: Final = 10
_Link = Callable[..., str]
#: The page that helps, and the part of its address that says what the need is about.
_PAGES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        NeedKind.REPLAY_STOPPED: ("replays", ""),
        NeedKind.RULES_UNREADABLE: ("rules", ""),
        NeedKind.GATE_UNREADABLE: ("gate", "gate"),
        NeedKind.GATE_HOLDS: ("gate", "gate"),
        NeedKind.ROOM_FLOODS: ("parked", ""),
        PARKED: ("parked", ""),
    }
)


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


def find_alerts(  # noqa: PLR0913 - each is another part of the page
    *,
    standing: Standing,
    work: OpenWork,
    parked: ParkedCount,
    words: Mapping[str, NeedWords],
    now: datetime,
    link: _Link,
) -> list[Alert]:
    """Return the alerts, the grave ones first. `words`: those of the kinds that capabilities note."""
    # By the time of the reading: what was read an hour ago says nothing of now.
    needs = find_needs(standing, parked, standing.named or now)
    if work.since is not None and now - work.since > TICK_SILENT and find_last_point(standing.hours) is None:
        needs.insert(0, Need(SILENT, TICK, "no tick of the last day wrote anything, and jobs run", now, work.since))
    return sorted(_of_needs(needs, standing.more, words, link), key=lambda alert: not alert.is_grave)


def link_need(link: _Link, need: Need, words: NeedWords | None) -> str:
    """Return the page that helps. `words`: those of a capability, if its kind is one's."""
    if need.is_of_job:
        return link("job", job=need.about)
    page, place = (words.page or "now", words.place) if words else _PAGES.get(need.kind, ("now", ""))
    return link(page, **({place: need.about} if place else {}))


def _of_needs(
    needs: Sequence[Need], kinds_of_more: Sequence[str], words: Mapping[str, NeedWords], link: _Link
) -> Iterator[Alert]:
    number = Counter(need.kind for need in needs)
    shown = Counter[str]()
    for need in needs:
        shown[need.kind] += 1
        if shown[need.kind] > MOST_OF_A_KIND:
            continue
        known = words.get(need.kind)
        done = link("need", kind=need.kind, about=need.about) if need.has_row else ""
        remedy = known.remedy if known else need.remedy
        address = link_need(link, need, known) if remedy else done
        found = f"{need.about}: {need.found}" if need.has_row else need.found
        seen_at = need.at if need.has_row else None
        yield Alert(need.words, found, remedy, address, need.since, seen_at, need.is_grave, done)
    for kind in number:
        if number[kind] <= MOST_OF_A_KIND and kind not in kinds_of_more:
            continue
        state = kind.partition("-")[2]
        address = link("jobs", state=state if state in {one.value for one in JobState} else "")
        more = f"at least {number[kind]:,}" if kind in kinds_of_more else f"{number[kind]:,}"
        found = f"there are {more}, of which {min(number[kind], MOST_OF_A_KIND)} are shown"
        yield Alert(name_kind(kind), found, "`sluice now` and the list of jobs have more", address)
