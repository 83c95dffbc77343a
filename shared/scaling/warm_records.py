"""The record of planned openings and of the instances warmed for them: one blob, changed by conditional writes.

Every decision about it can be repeated. So a writer that lost a race, or the reply to its write, reads again and
decides again, and then finds nothing left to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from shared.azure import OptimisticStore
from shared.clock import LOST_RACES, Clock
from shared.errors import ScalingRefusedError
from shared.gate import Opening
from shared.pending import WARM_POINTER, PendingTable, Pointer
from shared.scaling.warm_decisions import WarmOpening, WarmRecord, add_opening, drop_opening
from shared.versions import decode_document

#: The blob, in the container `settings`.
WARM_RECORD: Final = "warm"

#: How long a check may be late where the app has no identity for it. Operators run theirs every few minutes.
UNATTENDED: Final = timedelta(minutes=30)


class WarmReading(NamedTuple):
    """The record, the ETag of its blob, and the time by the clock of storage."""

    record: WarmRecord
    etag: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class WarmRequest:
    """The instances that an operator wants for an opening."""

    #: The resource id of the app.
    site: str
    #: The time from the opening to the last chunk.
    within: timedelta
    #: Instances at most.
    most: int


class WarmRecords:
    """The record of one installation."""

    def __init__(self, store: OptimisticStore, pending: PendingTable, clock: Clock) -> None:
        self._store, self._pending, self._clock = store, pending, clock

    def read(self) -> WarmReading:
        """Read the record. Without a blob it is empty."""
        found = self._store.read()
        if found is None:
            return WarmReading(WarmRecord(), None, self._clock.now())
        return WarmReading(_decode(found.value), found.etag, self._clock.of_reply(found.told))

    def try_write(self, read: WarmReading, record: WarmRecord, again_at: datetime | None) -> bool:
        """Write the record unless another writer was first. The pointer to the next check is written before it."""
        if again_at is not None:
            self._pending.add(Pointer(WARM_POINTER, again_at, WARM_POINTER))
        return record == read.record or self._store.try_write(msgspec.json.encode(record), read.etag) is not None

    def forget(self, pointer: Pointer) -> None:
        """Remove a pointer whose check was done."""
        self._pending.remove(pointer)

    def demand_site(self, record: WarmRecord, site: str) -> None:
        """Raise ScalingRefusedError if instances of another app are not given back yet."""
        if record.groups and record.site != site:
            raise ScalingRefusedError(
                f"could not warm instances of {site!r}: those of {record.site!r} are not given back yet; let SLUICE_WARM_SITE "
                "name the latter until `sluice tune warm` shows nothing"
            )

    def demand_check(self, pointer: Pointer) -> None:
        """Raise ScalingRefusedError if no check was done for too long. The app has no identity to do it itself."""
        late = self._clock.now() - pointer.due
        if late > UNATTENDED:
            raise ScalingRefusedError(
                f"instances that planned openings warm are unchecked for {late // timedelta(minutes=1)} minutes, and may cost: "
                "type `sluice tune warm --due`, and let a schedule repeat it"
            )

    def plan(self, gate: str, wanted: WarmRequest, planned: Opening, epoch: int) -> None:
        """Plan the instances of an opening, before the opening itself is planned. `epoch`: that of the gate now."""
        opening = WarmOpening(
            gate=gate,
            opens_at=planned.at,
            epoch=epoch,
            within=wanted.within,
            most=wanted.most,
            by=planned.by,
        )

        def add(read: WarmReading) -> WarmRecord:
            self.demand_site(read.record, wanted.site)
            return msgspec.structs.replace(add_opening(read.record, opening, read.now), site=wanted.site)

        self._change(add, opening.starts_at, f"plan the instances for the opening of gate {gate!r}")

    def drop(self, gate: str) -> None:
        """Plan no instances for the next opening of a gate."""
        self._change(
            lambda read: drop_opening(read.record, gate, read.now),
            None,
            f"drop the instances planned for gate {gate!r}",
        )

    def _change(self, decide: Callable[[WarmReading], WarmRecord], due: datetime | None, tried: str) -> None:
        def attempt(_number: int) -> bool:
            read = self.read()
            record = decide(read)
            # An opening that was moved or dropped may have instances already, which the next tick gives back.
            again_at = read.now if read.record.groups else due
            return record == read.record or self.try_write(read, record, again_at)

        LOST_RACES.until_done(attempt, tried)


def _decode(content: bytes) -> WarmRecord:
    try:
        return decode_document(content, WarmRecord, "warm record", f"settings/{WARM_RECORD}")  # type: ignore[no-any-return]
    except msgspec.DecodeError as error:
        raise ScalingRefusedError(
            f"the blob settings/{WARM_RECORD} is not a record of warmed instances ({error}): restore an earlier version of "
            "it, or take the instances back with `az functionapp scale config always-ready delete` and delete the blob"
        ) from error
