"""Now: what is decided and why, the processes, the queues, open jobs, and what needs a person."""

from typing import Final

from capabilities.console.alerts import find_alerts
from capabilities.console.pages.job_rows import COLUMNS, row_of_job
from capabilities.console.visit import Page, Visit

#: Seconds for which a page that was opened takes a part that another page has read.
_OPENED: Final = 2.0
#: And one that looks again, each five seconds, while something moves.
_LOOKED: Final = 1.0
#: Seconds for which it takes the queues. They cost two requests each, and say nothing about how far a job is.
_QUEUES: Final = 30.0
#: Seconds for which one that looks again takes gates and parked entries, while something moves and while nothing does.
_MOVING, _IDLE = 60.0, 1200.0
_FOREVER: Final = float("inf")
#: Points of the plot: a reading each half minute, for 75 minutes.
_MOST_POINTS: Final = 150


def show_now(visit: Visit) -> Page:
    """Show the installation. While nothing moves, a page that looks again costs one request."""
    snapshot = visit.view.snapshot
    is_moving = not visit.is_look or snapshot.is_moving()
    age = (_LOOKED if is_moving else _FOREVER) if visit.is_look else _OPENED
    slow = (_MOVING if is_moving else _IDLE) if visit.is_look else _OPENED
    fleet, standing, work = snapshot.fleet(age), snapshot.needs(age), snapshot.open_work(age)
    queues = snapshot.queues(max(age, _QUEUES) if visit.is_look else age)
    gates = snapshot.gates(slow)
    causes = snapshot.causes(slow).causes
    values = {
        "decision": fleet.decision,
        "rules_version": fleet.rules.version,
        "governors": sorted(fleet.governors.items()),
        "processes": sorted(fleet.fresh(visit.now), key=lambda one: one.name),
        "queues": queues,
        "points": snapshot.points()[-_MOST_POINTS:],
        "columns": COLUMNS,
        "jobs": [row_of_job(job, visit.now) for job in work.jobs],
        "open_number": work.number,
        "holding": [row for row in gates if row.held.count],
        "alerts": find_alerts(
            fleet=fleet,
            standing=standing,
            work=work,
            queues=queues,
            gates=gates,
            causes=causes,
            now=visit.now,
            link=visit.link,
        ),
    }
    return Page(title="Now", section="now", template="now.html", values=values, looks_again=True, has_plot=True)
