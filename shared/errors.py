"""Every error that `shared` raises on purpose, in one tree.

SluiceError
├── StorageUnavailableError       storage did not answer, or answered with something else than yes, no or not there
├── ContentionError               others changed the same blob first, as often as we were allowed to try
└── IdsError
    ├── WaitExpiredError          no id within the caller's deadline
    ├── GeneratorClosedError      the generator was closed, or belongs to the process this one was forked from
    ├── SequenceCorruptError      the blob holds something no generator wrote
    ├── SequenceLostError         the blob is gone although it was used
    ├── SequenceRestoredError     the blob holds an older or another history than the one that was written
    ├── SequenceExhaustedError    the numbers of the sequence are used up
    ├── NodesTakenError           every node number of the time-ordered ids is leased
    └── ClockWentBackError        the time of day is too far behind the ids already given
"""


class SluiceError(Exception):
    """The root: whatever Sluice raises on purpose can be caught as this."""


class StorageUnavailableError(SluiceError):
    """Raised when storage gave no usable answer; whether a write took effect is not known."""


class ContentionError(SluiceError):
    """Raised when a conditional write lost to other writers as often as it may be tried."""


class IdsError(SluiceError):
    """The root of what a generator of ids refuses."""


class WaitExpiredError(IdsError):
    """Raised when no id came within the caller's deadline."""


class GeneratorClosedError(IdsError):
    """Raised when a generator is used after its close, or in a forked child of its process."""


class SequenceCorruptError(IdsError):
    """Raised when a blob holds something that no generator wrote; no id is given from it."""


class SequenceLostError(IdsError):
    """Raised when the blob of a used sequence is gone; it is never started anew by itself."""


class SequenceRestoredError(IdsError):
    """Raised when a blob holds an older or another history than the one known to have been written."""


class SequenceExhaustedError(IdsError):
    """Raised when a sequence has no numbers left below its limit."""


class NodesTakenError(IdsError):
    """Raised when every node number is leased to a living process."""


class ClockWentBackError(IdsError):
    """Raised when the time of day is further behind the ids already given than a caller may wait."""
