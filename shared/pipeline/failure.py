"""What an exception means for the message that was worked on; pure."""

import hashlib
import socket
import sys
import traceback
from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from pathlib import PurePath
from types import FrameType, MappingProxyType
from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError

from shared.errors import (
    ContentionError,
    NoSlotError,
    ParkedTamperedError,
    PayloadTamperedError,
    RefusedError,
    ResultNotSentError,
    ResultRefusedError,
    StorageUnavailableError,
    UnknownWorkloadError,
)

#: An exception of an unknown kind parks at this delivery.
UNKNOWN_PARKS_AT: Final = 5
#: A message that killed its worker parks before any work at this delivery ...
KILLER_PARKS_AT: Final = 10
#: ... when at least so many deliveries began and never ended. Fewer can come from the outage that also kept the end of
#: a delivery from being noted, which must not park anything.
DEATHS_OF_KILLER: Final = 5
#: The deliveries before this one are not noted: nearly every message is done at its first, and a note is a request.
NOTED_FROM: Final = 3
#: Answers that the same request would get again however often it is sent.
_HOPELESS: Final = frozenset({400, 411, 413, 414, 416})
#: The way in which `fingerprint_of` makes fingerprints: those of two schemes cannot be compared.
FINGERPRINT_SCHEME: Final = 2
#: The package of this code, and the one workload in it.
_OURS: Final = "shared"
_EXAMPLE: Final = "shared.workloads.billing"
#: Where libraries are installed; the standard library's own names are Python's to say.
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
#: Frames of their own in some versions of Python only.
_INLINED: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})


class Nature(Enum):
    """What is known about a failure."""

    #: It lies outside of the message and passes: never a reason to park.
    TRANSIENT = auto()
    #: The same message fails the same way every time.
    PERMANENT = auto()
    UNKNOWN = auto()


class Mark(StrEnum):
    """What is noted about one delivery."""

    BEGUN = "begun"
    ENDED = "ended"


class KillerError(Exception):
    """Stands for the exception that a worker that died could not raise."""


_TRANSIENT: Final = (
    StorageUnavailableError,
    ContentionError,
    NoSlotError,
    ResultNotSentError,
    AzureError,
    ConnectionError,
    TimeoutError,
    socket.gaierror,
)
_PERMANENT: Final = (
    RefusedError,
    UnknownWorkloadError,
    PayloadTamperedError,
    ParkedTamperedError,
    ResultRefusedError,
    KillerError,
)

_REASONS: Final[Mapping[type[BaseException], str]] = MappingProxyType(
    {UnknownWorkloadError: "unknown_workload", KillerError: "killed_its_worker"}
)


def nature_of(error: BaseException) -> Nature:
    """Return what an exception says about trying again."""
    if isinstance(error, StorageUnavailableError) and isinstance(error.__cause__, HttpResponseError):
        return nature_of(error.__cause__)
    if isinstance(error, HttpResponseError):
        # A missing role or an entity that is being made is nobody's fault who waits in the queue.
        return Nature.UNKNOWN if error.status_code in _HOPELESS else Nature.TRANSIENT
    if isinstance(error, _TRANSIENT):
        return Nature.TRANSIENT
    return Nature.PERMANENT if isinstance(error, _PERMANENT) else Nature.UNKNOWN


def parks(nature: Nature, delivery: int) -> bool:
    """Whether a failure of this nature, at this delivery of its message, is the last one."""
    return nature is Nature.PERMANENT or (nature is Nature.UNKNOWN and delivery >= UNKNOWN_PARKS_AT)


def killed_its_worker(marks: Mapping[int, Mark], delivery: int) -> bool:
    """Whether the deliveries before this one ended with the process and not with an exception."""
    deaths = sum(mark is Mark.BEGUN for number, mark in marks.items() if number < delivery)
    return delivery >= KILLER_PARKS_AT and deaths >= DEATHS_OF_KILLER


def reason_of(error: BaseException) -> str:
    """Return the code of a failure: short, permanent, and the same for the same cause."""
    if isinstance(error, RefusedError):
        # A str that is an enum's member in some catalogues, plain text in others.
        return str(error.reason)
    return _REASONS.get(type(error), f"failed:{type(error).__name__}")[:200]


def fingerprint_of(error: BaseException, stage: str) -> str:
    """Return the fingerprint that failures of one cause share: type, reason, and the workload's functions it went through.

    A failure outside of the workload is known by its stage and our last function. Neither files, line numbers, values
    nor libraries count: a later deployment must give the same cause the same fingerprint.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    places = [f"{_module(frame)}:{frame.f_code.co_name}" for frame in frames if _is_of_workload(frame)]
    if not places:
        ours = [frame.f_code.co_name for frame in frames if _module(frame).partition(".")[0] == _OURS]
        places = [stage, *ours[-1:]]
    return hashlib.sha256("|".join([type(error).__qualname__, reason_of(error), *places]).encode()).hexdigest()[:12]


def _is_of_workload(frame: FrameType) -> bool:
    """Whether the code is neither ours nor a library's."""
    if frame.f_code.co_name in _INLINED:
        return False
    module = _module(frame)
    package = module.partition(".")[0]
    if package == _OURS:
        return module == _EXAMPLE
    is_installed = not _INSTALLED.isdisjoint(PurePath(frame.f_code.co_filename).parts)
    return package not in sys.stdlib_module_names and not is_installed


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
