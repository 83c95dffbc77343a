"""What one service bears: halved when it pushes back, grown step by step while all that is allowed is used; pure.

A governor is kept for each resource (the storage account, the bus namespace), not for each queue: a 503 that one
consumer sees is about all of them.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

#: What is left of the share after a push-back.
DECREASE: Final = 0.5
#: Refusals of requests that were on their way together count as one.
TOGETHER: Final = timedelta(seconds=2)
#: No growth for so long after a push-back, or for as long as the service itself says where that is longer.
QUIET: Final = timedelta(seconds=10)
#: The longest time that a Retry-After is believed.
LONGEST_QUIET: Final = timedelta(minutes=5)
#: Share of the full rate that comes back in a second of use.
GROWTH: Final = 0.1
#: The least share: somebody has to find out that the service is back.
LEAST: Final = 1 / 32


@dataclass(frozen=True, slots=True)
class Governor:
    """The share of the full rate that a resource bears, and since when."""

    share: float = 1.0
    slowed_at: datetime | None = None
    #: No growth before.
    quiet_until: datetime | None = None
    #: Up to here use was counted for growth.
    seen_at: datetime | None = None
    #: How often it was slowed; tells a newer state from an older one of the same second.
    times: int = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing is held back."""
        return self.share >= 1.0

    def limit(self, full: int) -> int:
        """Return how many of `full` are allowed: at least one."""
        return full if self.is_full else max(1, int(full * self.share))

    def slowed(self, now: datetime, retry_after: timedelta | None = None) -> "Governor":
        """Return the governor after a push-back."""
        pause = min(max(retry_after or QUIET, QUIET), LONGEST_QUIET)
        quiet_until = max(filter(None, (self.quiet_until, now + pause)))
        if self.slowed_at is not None and now - self.slowed_at < TOGETHER:
            return replace(self, quiet_until=quiet_until)
        return replace(
            self,
            share=max(LEAST, self.share * DECREASE),
            slowed_at=now,
            quiet_until=quiet_until,
            seen_at=now,
            times=self.times + 1,
        )

    def grown(self, now: datetime, *, is_in_use: bool) -> "Governor":
        """Return the governor after a while; what was not used proves nothing, so it brings nothing back."""
        if self.is_full or self.seen_at is None or self.quiet_until is None:
            return self
        since = max(self.seen_at, self.quiet_until)
        if now <= since:
            return self
        used = (now - since).total_seconds() if is_in_use else 0.0
        share = min(1.0, self.share + GROWTH * used)
        return replace(self, share=share, seen_at=now)

    def after(self, other: "Governor") -> "Governor":
        """Return the newer of two views of the same resource."""
        mine, theirs = (one.slowed_at.timestamp() if one.slowed_at else 0.0 for one in (self, other))
        return other if (theirs, other.times) > (mine, self.times) else self
