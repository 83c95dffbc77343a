"""The table of nights: a row for each job that names one, beside its line in the list, and a row for each night.

A night is a name and no more: it holds nothing up. So its rows are hints with a time, as those of the list of jobs are, and
acts read the rows of the jobs. Only a job with a night makes a request more for each news of it, and two at its acceptance.
Its row goes a day after the job's burial or the proof of its erasure, by four requests.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import Entity, expecting_an_answer
from shared.grammar import room_job, room_of
from shared.ledger.ledger import Listed
from shared.ledger.records import Job

#: The partition of the nights themselves. No night's name begins with it.
ALL: Final = "!"
#: Jobs of a night that are read, and nights that are looked through.
MOST: Final = 1000
_LAST_DAY: Final = 99_999_999


@dataclass(frozen=True, slots=True)
class NightLine:
    """One job of a night, as the last news of it says."""

    listed: Listed
    accepted: int
    rejected: int
    parked: int
    #: The jobs that it waits for.
    waits: Sequence[str]
    #: The requests of all stages so far, by the meter that bills them.
    requests: Mapping[str, int]


def night_of(job: Job) -> str | None:
    """Return the night of a job with its room, as lists name it."""
    return None if job.night is None else room_job(room_of(job.job), job.night)


def _key_of_day(night: str | None, accepted_at: datetime) -> str:
    return f"{_LAST_DAY - int(f'{accepted_at:%Y%m%d}'):08}|{night}"


class NightTable:
    """The table `nights`."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def begin(self, job: Job) -> None:
        """Write the row of the night of a new job. Safe to repeat."""
        row = {"PartitionKey": ALL, "RowKey": _key_of_day(night_of(job), job.accepted_at)}
        with expecting_an_answer(f"list night {job.night!r}"):
            self._table.upsert_entity(row, mode=UpdateMode.MERGE)

    def tell(self, job: Job, line: Entity, mode: UpdateMode) -> None:
        """Write the news of a job, whose line in the list this is, in the same way as that. Safe to repeat."""
        totals = job.totals
        counts = {"accepted": totals.accepted.items, "rejected": totals.rejected.items, "parked": totals.parked.items}
        row = line | {"PartitionKey": night_of(job), "RowKey": job.job, "requests": json.dumps(dict(job.requests))}
        row |= {"counts": json.dumps(counts), "waits": json.dumps(job.waits)}
        with expecting_an_answer(f"list job {job.job!r} in night {job.night!r}"):
            self._table.upsert_entity(row, mode=mode)

    def find(self, job: Job) -> Mapping[str, Any]:
        """Return the row of a job, or an empty one. One request."""
        with expecting_an_answer(f"read job {job.job!r} in night {job.night!r}"):
            try:
                return self._table.get_entity(night_of(job) or ALL, job.job)
            except ResourceNotFoundError:
                return {}

    def forget(self, job: Job) -> None:
        """Remove the row of a job, and that of its night and day with the last job of that day. Safe to repeat.

        Four requests. A job that joins the night meanwhile has written the night's row anew, so that stays.
        """
        night = night_of(job) or ALL
        key = _key_of_day(night, job.accepted_at)
        with expecting_an_answer(f"remove job {job.job!r} from night {job.night!r}"):
            self._table.delete_entity(night, job.job)
            with suppress(ResourceNotFoundError, ResourceModifiedError):
                listed = self._table.get_entity(ALL, key)
                words, values = "PartitionKey eq @night", {"night": night}
                left = self._table.query_entities(
                    words, parameters=values, select=["accepted_at"], results_per_page=MOST
                )
                days = {
                    _key_of_day(night, datetime.fromisoformat(row["accepted_at"])) for row in next(left.by_page(), ())
                }
                if key not in days:
                    self._table.delete_entity(
                        listed, etag=listed.metadata["etag"], match_condition=MatchConditions.IfNotModified
                    )

    def list_newest(self, most: int) -> list[str]:
        """Return the names of the latest nights, the newest first. One request."""
        with expecting_an_answer("list the nights"):
            rows = self._table.query_entities("PartitionKey eq @all", parameters={"all": ALL}, results_per_page=MOST)
            names = (row["RowKey"].partition("|")[2] for row in next(rows.by_page(), ()))
            # One that began before midnight has a row for each day.
            return list(dict.fromkeys(names))[:most]

    def read(self, night: str, read_line: Callable[[Mapping[str, Any]], Listed]) -> list[NightLine]:
        """Return the jobs of a night by one request, up to a thousand, those that wait for others last."""
        with expecting_an_answer(f"read night {night!r}"):
            rows = self._table.query_entities(
                "PartitionKey eq @night", parameters={"night": night}, results_per_page=MOST
            )
            found = [_read(row, read_line) for row in next(rows.by_page(), ())]
        return sorted(found, key=lambda one: (bool(one.waits), one.listed.accepted_at, one.listed.job))


def _read(row: Mapping[str, Any], read_line: Callable[[Mapping[str, Any]], Listed]) -> NightLine:
    counts = json.loads(row["counts"])
    return NightLine(
        listed=read_line(row),
        accepted=counts["accepted"],
        rejected=counts["rejected"],
        parked=counts["parked"],
        waits=json.loads(row["waits"]),
        requests=json.loads(row["requests"]),
    )
