"""Every error that `shared` raises on purpose, in one tree.

SluiceError
├── StorageUnavailableError       storage did not answer, or answered with something else than yes, no or not there
├── ContentionError               others changed the same blob first, as often as we were allowed to try
├── RefusedError                  what was sent cannot be accepted: a named reason, and what to send instead
├── PayloadTamperedError          a blob whose name is a hash holds other bytes
├── WorkloadsRefusedError         the setting names a workload that cannot be loaded or used
├── UnknownWorkloadError          there is no workload of that name in this installation
├── ResultRefusedError            a result is not what was stored under its name, or does not fit its message
├── ResultNotSentError            the bus did not take a result
├── AttemptFailedError            an invocation failed; what the host may log of it
├── RulesRefusedError             the rules of concurrency make no sense, or somebody else wrote newer ones
├── TraceRefusedError             a trace of the work queues cannot be read
├── NoSlotError                   a process had no slot for a message in time; it is delivered again, perhaps elsewhere
├── ScalingRefusedError           Azure does not let the operator scale the app, or it is none that can be
├── PricesError                   a table of prices cannot be read, or is none
├── ParkedError
│   ├── NotParkedError            nothing is parked under that key
│   └── ParkedTamperedError       the bytes of something parked are not those that were parked
├── IdsError
│   ├── WaitExpiredError          no id within the caller's deadline
│   ├── GeneratorClosedError      the generator was closed, or belongs to the process this one was forked from
│   ├── SequenceCorruptError      the blob holds something no generator wrote
│   ├── SequenceLostError         the blob is gone although it was used
│   ├── SequenceRestoredError     the blob holds an older or another history than the one that was written
│   └── SequenceExhaustedError    the numbers of the sequence are used up
├── LedgerError
│   ├── JobStateError             a job is not in a state in which this can happen to it
│   ├── RowTooLargeError          a row of the ledger would be larger than a table takes
│   ├── LedgerCorruptError        a row of the ledger holds something that Sluice never wrote
│   ├── SettleIncompleteError     some results of a batch could not be credited now; they are delivered again
│   ├── FinishRefusedError        the outputs of a job cannot be made, however often it is tried
│   ├── FencedOffError            a newer revision of the job has begun to write its totals
│   └── PlanLostError             a job's plan is gone or was changed
└── GateError
    ├── NameRefusedError          a gate or a held entry cannot be called so
    ├── GateCorruptError          the blob holds something that no writer of gates wrote
    ├── ScheduleRefusedError      an opening cannot be planned for that time
    ├── HeldConflictError         the same id is held already with something else
    ├── MessageRefusedError       no storage queue can carry the message
    ├── DispatchIncompleteError   some held work that may start could not be put on its queue
    ├── SignalNotSentError        the bus did not take the signal of an opening
    └── ReleaseExpiredError       the gate was not opened within the caller's deadline
"""

from typing import ClassVar


class SluiceError(Exception):
    """The root: whatever Sluice raises on purpose can be caught as this."""

    #: Whether its words are Sluice's own; False where they may quote what somebody sent, which no log may show.
    quotes_nobody: ClassVar[bool] = True


class StorageUnavailableError(SluiceError):
    """Raised when storage gave no usable answer; whether a write took effect is not known."""


class ContentionError(SluiceError):
    """Raised when a conditional write lost to other writers as often as it may be tried."""


class RefusedError(SluiceError):
    """Raised when what somebody sent cannot be accepted, however often it is tried."""

    quotes_nobody = False

    def __init__(self, reason: str, found: str, instead: str) -> None:
        super().__init__(f"{reason}: {found}; {instead}")
        #: The code of the reason, as in the catalogue of reasons.
        self.reason = reason
        self.found, self.instead = found, instead


class PayloadTamperedError(SluiceError):
    """Raised when a blob whose name is the hash of its content holds something else."""


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


class GateError(SluiceError):
    """The root of what gates refuse."""


class NameRefusedError(GateError):
    """Raised when a gate or a held entry is called something that it cannot be called."""


class GateCorruptError(GateError):
    """Raised when a gate's blob holds something that no writer of gates wrote; nothing starts by it."""


class ScheduleRefusedError(GateError):
    """Raised when an opening is planned for a time at which it cannot happen."""


class HeldConflictError(GateError):
    """Raised when an id is held already with another message or destination; neither is lost or replaced."""


class MessageRefusedError(GateError):
    """Raised when a message is too large for a storage queue or has characters that none can carry."""


class DispatchIncompleteError(GateError):
    """Raised when held work that may start stayed where it is; the next tick tries again."""


class SignalNotSentError(GateError):
    """Raised when the bus did not take a signal; whoever waits finds the opening by the next poll."""


class ReleaseExpiredError(GateError, TimeoutError):
    """Raised when a gate was not opened within the caller's deadline, so that nobody starts by mistake."""


class WorkloadsRefusedError(SluiceError):
    """Raised when a workload cannot be loaded or lacks something; nothing starts with it."""


class UnknownWorkloadError(SluiceError):
    """Raised when a job asks for a workload that this installation does not have."""


class ResultRefusedError(SluiceError):
    """Raised when a stored result cannot be read, or a result message is larger than it may be."""

    quotes_nobody = False


class ResultNotSentError(SluiceError):
    """Raised when the bus did not take a result; the chunk is delivered again and sends the stored one."""


class AttemptFailedError(SluiceError):
    """Raised in the place of whatever an invocation failed with, in words that a log may show."""


class RulesRefusedError(SluiceError):
    """Raised when the rules of concurrency cannot be read or put; those in force stay."""


class TraceRefusedError(SluiceError):
    """Raised when a line of a trace is none."""


class NoSlotError(SluiceError):
    """Raised when a process works on as much as it may and a message has waited long enough for its turn."""


class ScalingRefusedError(SluiceError):
    """Raised when the app cannot be given instances: it is not there, not on the right plan, or not the operator's."""


class PricesError(SluiceError):
    """Raised when a table of prices cannot be used; the message says where to get one that can."""


class ParkedError(SluiceError):
    """The root of what the place for failed work refuses."""


class NotParkedError(ParkedError):
    """Raised when nothing is parked under a key."""


class ParkedTamperedError(ParkedError):
    """Raised when the bytes of a parked message are missing or are not those that were parked; they are not sent."""


class LedgerError(SluiceError):
    """The root of what the ledger refuses."""


class JobStateError(LedgerError):
    """Raised when something is asked of a job that its state does not allow."""


class RowTooLargeError(LedgerError):
    """Raised when a row or a property is larger than Azure Tables takes; Azurite would take it."""


class LedgerCorruptError(LedgerError):
    """Raised when a row of the ledger holds something that Sluice never wrote; nothing is decided by it."""


class FinishRefusedError(LedgerError):
    """Raised when a job's outputs cannot be made from what its workload returns."""

    quotes_nobody = False


class FencedOffError(LedgerError):
    """Raised when a newer revision has begun: whatever is still written for this one counts for nobody."""


class SettleIncompleteError(LedgerError):
    """Raised when storage was away for too long while a batch was settled; the batch is delivered again."""


class PlanLostError(LedgerError):
    """Raised when a job's plan is missing or holds other bytes than its name says; nothing is dispatched by it."""


class SettingsError(ValueError):
    """Raised when settings are missing or make no sense; it names all of them at once."""
