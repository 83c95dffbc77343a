"""What is fuzzed: how a case is made of chance alone, and what becomes of it."""

from collections.abc import Callable
from dataclasses import dataclass

from shared.errors import RefusedError, SluiceError
from shared.refusals import DeliveryReason, Reason, ResultReason

ACCEPTED = "accepted"
#: What the pages say of a refusal beside the catalogue: `docs/parked.md` lists the first, a workload's own come last.
CODES = {reason.value for kind in (Reason, DeliveryReason, ResultReason) for reason in kind}


@dataclass(frozen=True)
class Target:
    """One door: everything that comes through it is accepted or refused by name."""

    name: str
    #: Makes the parts of a case, the same for the same chance.
    make: Callable
    #: Returns ACCEPTED or why not; whatever else than a documented refusal it raises is a failure.
    run: Callable
    #: Cases of a million.
    share: int
    #: Errors that are the documented answer of this door.
    refusals: tuple[type[SluiceError], ...] = ()

    def outcome(self, parts):
        """Return what became of a case; raises what is a failure."""
        try:
            return self.run(*parts)
        except RefusedError as error:
            return refused(error)
        except self.refusals as error:
            return type(error).__name__


def refused(error):
    """Return the reason of a refusal; one that no catalogue has is a failure."""
    if str(error.reason) not in CODES:
        raise AssertionError(f"refused for {error.reason!r}, which no catalogue has") from error
    return str(error.reason)
