"""The list of jobs, newest first: a table lists in key order only, so its keys count down."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from shared.ledger.entities import Entity
from shared.ledger.ledger import Listed
from shared.ledger.records import Job

_LAST_MONTH: Final = 999_999
_LAST_MILLISECOND: Final = 10**15 - 1


def index_entity(job: Job) -> Entity:
    """Return the job's line in the list; the same job always has the same."""
    moment = job.accepted_at
    line = {"job": job.job, "workload": job.workload, "gate": job.gate, "accepted_at": moment.isoformat()}
    keys = {
        "PartitionKey": f"{_LAST_MONTH - (moment.year * 100 + moment.month):06}",
        "RowKey": f"{_LAST_MILLISECOND - int(moment.timestamp() * 1000):015}|{job.job}",
    }
    return keys | {name: value for name, value in line.items() if value is not None}


def listed_of(entity: Mapping[str, Any]) -> Listed:
    """Return the line that a row holds."""
    accepted_at = datetime.fromisoformat(entity["accepted_at"])
    return Listed(entity["job"], accepted_at, entity["workload"], entity.get("gate"))
