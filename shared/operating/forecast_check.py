"""The forecast of an opening beside its outcome: noted in the audit with the act, compared when its jobs have ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.gate import Gates, GateState
from shared.ledger import CLOSED, JobList, Ledger, Listed, NightLine, Wanted
from shared.operating.audit import AuditTable
from shared.operating.forecast import DETAIL, ForecastNote, Happened, read_note
from shared.operating.gate_acts import find_opener
from shared.operating.night_acts import add_bills
from shared.usage import Prices, bill_of

#: Jobs whose bills are read for a comparison, a request each, and lines of the list that are looked through.
MOST_COMPARED: Final = 100
_LINES: Final = 1_000
#: Gates of a night that are compared.
MOST_GATES: Final = 3


def add_up(lines: Sequence[Listed], amount: Decimal) -> Happened:
    """Return the outcome of the jobs of these lines, whose bills are this amount together."""
    ended = [line for line in lines if line.state in CLOSED]
    times = [line.finished_at for line in ended if line.finished_at]
    is_over = len(ended) == len(lines) and len(times) == len(lines)
    return Happened(len(lines), len(ended), max(times, default=None) if is_over else None, amount)


def was_started(line: Listed, opened_at: datetime) -> bool:
    """Check whether a job was behind its gate when that was opened, and has started since."""
    return line.accepted_at <= opened_at and line.started_at is not None and line.started_at >= opened_at


@dataclass(frozen=True, slots=True)
class ForecastCheck:
    """Reads what was forecast of the last opening of a gate, and what happened."""

    audit: AuditTable
    gates: Gates
    jobs: JobList
    ledger: Ledger

    def find(self, gate: str, state: GateState) -> ForecastNote | None:
        """Return the forecast that was noted with the last opening, or with its plan.

        One request, or two in the first week of a month. None for a gate that never opened.
        """
        if state.at is None:
            return None
        act = find_opener(self.audit.list_about(gate, state.at), state)
        return read_note(act.details.get(DETAIL)) if act else None

    def check(self, gate: str, state: GateState, prices: Prices) -> tuple[ForecastNote, Happened] | None:
        """Compare the forecast of the last opening. None: it had none.

        Two requests more for the list, and one for each job that it started, up to a hundred.
        """
        note = self.find(gate, state)
        if note is None or state.at is None:
            return None
        opened_at = state.at
        page = self.jobs.page(Wanted(gate=gate, before=opened_at + timedelta(seconds=1)), _LINES)
        lines = [line for line in page.jobs if was_started(line, opened_at)][:MOST_COMPARED]
        rows = filter(None, (self.ledger.read(line.job) for line in lines))
        return note, add_up(lines, sum((bill_of(row, prices).total for row in rows), Decimal()))

    def check_night(self, lines: Sequence[NightLine], prices: Prices) -> list[tuple[str, ForecastNote, Happened]]:
        """Compare the forecasts of the gates of a night, by its rows. Two requests for each gate, up to three."""
        gates = sorted({one.listed.gate for one in lines if one.listed.gate})[:MOST_GATES]
        found = []
        for gate in gates:
            state = self.gates.read(gate)
            note = self.find(gate, state)
            if note is not None and state.at is not None:
                opened_at = state.at
                mine = [one for one in lines if one.listed.gate == gate and was_started(one.listed, opened_at)]
                found.append((gate, note, add_up([one.listed for one in mine], add_bills(mine, prices))))
        return found
