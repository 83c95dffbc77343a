"""Compares the totals of two runs of a job, account by account, as their finishes stored them.

The totals of both are read in the order of their keys, a page of each partition at a time. So the memory does not grow
with the accounts. A manifest says which partitions have the totals of its revision. Each has a fence, which says
whether a later revision has replaced them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from azure.storage.blob import ContainerClient

from shared.errors import JobStateError
from shared.grammar import amounts
from shared.ledger import Job, Portion
from shared.operating.differences import AccountChange, Sides, TotalsDifference, is_same_portion
from shared.operating.job_acts import read_total
from shared.pipeline import Manifest, Outputs, TotalsTable

#: Rows that are held of one side, and the fewest of a page.
_HELD: Final = 2000
_LEAST: Final = 50
_WAYS: Final = ("accepted", "rejected", "parked")


@dataclass(slots=True)
class RunDiff:
    """Two revisions of a job, and how their totals differ as far as they were compared."""

    job: str
    revisions: Sides[int]
    #: By the way they ended: accepted, rejected, parked.
    portions: Mapping[str, Sides[Portion]]
    #: Rows of totals of each side.
    rows: Sides[int]
    totals: TotalsDifference = field(default_factory=TotalsDifference)

    @property
    def differs(self) -> bool:
        """True if anything is not as it was."""
        is_same = all(is_same_portion(sides) for sides in self.portions.values())
        return bool(self.totals.changed) or not is_same


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReader:
    """Compares runs. Two requests for the manifests, one for each partition, and one for each page of totals."""

    outputs: ContainerClient
    totals: TotalsTable

    def choose(self, job: Job, before: int | None, now: int | None) -> Sides[Manifest]:
        """Return the manifests of two revisions: the last one, and the last of the run before, unless others are named."""
        later = self._find(job, job.revision if now is None else now)
        if later is None:
            raise JobStateError(
                f"could not compare job {job.job!r}: revision {now or job.revision} has no outputs, the job is {job.state.value}"
            )
        if before is None:
            before = self._search(job, later.revision)
        earlier = None if before is None else self._find(job, before)
        if earlier is None:
            which = "no revision of a run before it has" if before is None else f"revision {before} has no"
            raise JobStateError(f"could not compare revision {later.revision} of job {job.job!r}: {which} outputs")
        for one in (earlier, later):
            self._check(one)
        return Sides(earlier, later)

    def _find(self, job: Job, revision: int) -> Manifest | None:
        return Outputs(self.outputs, job.job, revision).find_manifest()

    def _search(self, job: Job, later: int) -> int | None:
        first = min(job.run_from, later)
        return next((one for one in range(first - 1, 0, -1) if self._find(job, one)), None)

    def _check(self, manifest: Manifest) -> None:
        """Raise if a later revision of the same run has replaced its totals."""
        for partition in manifest.totals_partitions:
            found = self.totals.find_revision(partition)
            if found != manifest.revision and (found is not None or manifest.totals):
                by = "are gone" if found is None else f"were replaced by those of revision {found}"
                raise JobStateError(
                    f"could not compare revision {manifest.revision} of job {manifest.job!r}: its totals {by}"
                )

    def begin(self, manifests: Sides[Manifest]) -> RunDiff:
        """Return both runs as their manifests tell of them."""
        before, now = manifests
        portions = {way: Sides(_read_portion(before, way), _read_portion(now, way)) for way in _WAYS}
        return RunDiff(now.job, Sides(before.revision, now.revision), portions, Sides(before.totals, now.totals))

    def compare(self, manifests: Sides[Manifest], found: RunDiff) -> Iterator[AccountChange]:
        """Yield each account that differs, in the order of keys, and count all in `found`."""
        sides = [self._read(one, side) for side, one in enumerate(manifests)]
        for _, group in groupby(merge(*sides, key=itemgetter(0, 1)), key=itemgetter(0)):
            rows: dict[int, dict[str, Any]] = {side: read_total(row) for _, side, row in group}
            account = str(next(iter(rows.values()))["account"])
            before, now = (rows.get(side) for side in (0, 1))
            for total in filter(None, (before, now)):
                del total["account"], total["revision"]
            if before == now:
                found.totals.equal += 1
            else:
                change = AccountChange(account, before, now)
                found.totals.count(change)
                yield change

    def _read(self, manifest: Manifest, side: int) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
        page = max(_LEAST, _HELD // (2 * len(manifest.totals_partitions)))
        parts = [self.totals.rows_of_partition(one, manifest.revision, page) for one in manifest.totals_partitions]
        for row in merge(*parts, key=itemgetter("RowKey")):
            yield row["RowKey"], side, row


def _read_portion(manifest: Manifest, way: str) -> Portion:
    ended = getattr(manifest, way)
    return Portion(ended.items, amounts(ended.sums), ended.unknown)
