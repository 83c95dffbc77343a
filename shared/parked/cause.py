"""The cause of a failure: its reason, and the fingerprint that all failures of one cause share. Pure."""

import hashlib
import sys
import traceback
from collections.abc import Mapping
from pathlib import PurePath
from types import FrameType, MappingProxyType
from typing import Final, NamedTuple

from shared.errors import LaterFormatError, NewerVersionError, RefusedError, UnknownWorkloadError
from shared.parked.poison_policy import KillerError
from shared.refusals import DeliveryReason
from shared.telemetry import origin_of, place

#: The version of `fingerprint_of`: fingerprints of two schemes cannot be compared.
FINGERPRINT_SCHEME: Final = 2
#: The package of this code: `shared`, or the wheel's name of it. And the one workload in it: billing, the example.
_OURS: Final = __name__.removesuffix(".parked.cause")
_EXAMPLE: Final = f"{_OURS}.workloads.billing"
#: Its name in fingerprints: the app and the wheel give the same cause the same one.
_EXAMPLE_NAME: Final = "shared.workloads.billing"
#: Folders of installed libraries. Python itself lists the standard library's names.
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
#: Comprehensions have frames of their own in some versions of Python only, so they never count.
_INLINED: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
#: The attribute of an error with the number of its transaction.
_ITEM: Final = "_sluice_item"
_REASONS: Final[Mapping[type[BaseException], DeliveryReason]] = MappingProxyType(
    {
        UnknownWorkloadError: DeliveryReason.UNKNOWN_WORKLOAD,
        KillerError: DeliveryReason.KILLED_ITS_WORKER,
        NewerVersionError: DeliveryReason.NEWER_VERSION,
        LaterFormatError: DeliveryReason.NEWER_VERSION,
    }
)


class FailureCause(NamedTuple):
    """Why a message is parked: reason code, facts, remedy, the fingerprint of all failures of this cause, and where."""

    reason: str
    found: str
    instead: str
    fingerprint: str
    #: The functions that the error passed through, the innermost first. Empty: nothing was raised.
    place: str = ""
    #: The number of the transaction that failed. None: unknown.
    failed_item: int | None = None


def note_item(error: BaseException, number: int) -> None:
    """Keep with an error which transaction it is about. The number that was kept first stays."""
    error.__dict__.setdefault(_ITEM, number)


def cause_of(error: BaseException, stage: str, remedy: str) -> FailureCause:
    """Return the cause of an error.

    `remedy` is its stage's: it is used when neither the error nor its reason has one.
    """
    reason, fingerprint, raised = reason_of(error), fingerprint_of(error, stage), origin_of(error)
    cause = FailureCause(
        reason,
        f"{type(raised).__name__}: {raised}",
        known.instead if (known := _REASONS.get(type(error))) else remedy,
        fingerprint,
        place(error),
        error.__dict__.get(_ITEM),
    )
    return cause._replace(found=error.found, instead=error.instead) if isinstance(error, RefusedError) else cause


def reason_of(error: BaseException) -> str:
    """Return the reason code of a failure: short, permanent, and the same for the same cause."""
    if isinstance(error, RefusedError):
        return str(error.reason)
    known = _REASONS.get(type(error))
    return known.value if known else f"failed:{type(origin_of(error)).__name__}"[:200]


def fingerprint_of(error: BaseException, stage: str) -> str:
    """Return a hash of the error's type, its reason and the workload's functions in its traceback.

    A failure outside of the workload is identified by its stage and our last function. Files, line numbers, values and
    libraries do not count: a later deployment must give the same cause the same fingerprint.
    """
    raised = origin_of(error)
    frames = [frame for frame, _ in traceback.walk_tb(raised.__traceback__)]
    places = [f"{_public(frame)}:{frame.f_code.co_name}" for frame in frames if _is_of_workload(frame)]
    if not places:
        ours = [frame.f_code.co_name for frame in frames if _is_ours(_module(frame))]
        places = [stage, *ours[-1:]]
    return hashlib.sha256("|".join([type(raised).__qualname__, reason_of(error), *places]).encode()).hexdigest()[:12]


def _is_of_workload(frame: FrameType) -> bool:
    """Return whether the code is neither ours nor a library's."""
    if frame.f_code.co_name in _INLINED:
        return False
    module = _module(frame)
    package = module.partition(".")[0]
    if _is_ours(module):
        return module == _EXAMPLE
    is_installed = not _INSTALLED.isdisjoint(PurePath(frame.f_code.co_filename).parts)
    return package not in sys.stdlib_module_names and not is_installed


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _public(frame: FrameType) -> str:
    module = _module(frame)
    return _EXAMPLE_NAME if module == _EXAMPLE else module


def _is_ours(module: str) -> bool:
    return module.startswith(f"{_OURS}.")
