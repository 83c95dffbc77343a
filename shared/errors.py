"""Every error that `shared` raises on purpose, in one tree.

- SluiceError
  - StorageUnavailableError, ContentionError
  - ActRepeatedError, ActStaleError
  - LeaseLostError, NoReplayError
  - DryRunError, CallsOutsideError
  - AmbiguousError
  - RefusedError, PayloadTamperedError
  - NewerVersionError
  - WorkloadsRefusedError, UnknownWorkloadError
  - ResultRefusedError, ResultNotSentError
  - AttemptFailedError
  - Later, PutOffError
  - RulesRefusedError, TraceRefusedError, NotStartedError, ScalingRefusedError, PricesError
  - NoSlotError
    - NotCalledError
  - ParkedError
    - NotParkedError, ParkedTamperedError
  - IdsError
    - WaitExpiredError, GeneratorClosedError
    - SequenceCorruptError, SequenceLostError, SequenceRestoredError, SequenceExhaustedError
  - LedgerError
    - JobStateError, RowTooLargeError, LedgerCorruptError, SettleIncompleteError
    - FinishRefusedError, FencedOffError, PlanLostError
  - GateError
    - NameRefusedError, GateCorruptError, ScheduleRefusedError, HeldConflictError
    - MessageRefusedError, DispatchIncompleteError, SignalNotSentError, ReleaseExpiredError
  - NotPublishedError, DecisionFailedError, BudgetSpentError
  - HomeError
    - ConflictError, DuplicateError, CommitTooLargeError, HomeCorruptError
    - LaterFormatError, also a NewerVersionError
  - ReadModelError
    - MigrationRefusedError, ViewCorruptError
- SettingsError, a ValueError; UserExitError, an Exception as any other of the user's code
"""

from typing import ClassVar


class SluiceError(Exception):
    """The root of the errors that Sluice raises on purpose."""

    #: Whether its words are Sluice's own. False where they may quote a publisher's data, which no log may show.
    quotes_nobody: ClassVar[bool] = True


class StorageUnavailableError(SluiceError):
    """Storage gave no usable answer: none, or one other than success, refusal or not found. A write may have taken effect."""


class ContentionError(SluiceError):
    """A conditional write lost to other writers in all its attempts."""


class ActRepeatedError(SluiceError):
    """An act was sent a second time. It was not done again."""


class ActStaleError(SluiceError):
    """The object of an act is another one than the person saw. Nothing was done."""


class LeaseLostError(SluiceError):
    """Another process has taken the row that this one works on, because its lease was over."""


class NoReplayError(SluiceError):
    """No replay has this id."""


class DryRunError(SluiceError):
    """A dry run cannot compare."""


class CallsOutsideError(DryRunError):
    """A dry run would call others, and its caller does not allow that."""


class AmbiguousError(SluiceError):
    """The beginning of a name that a person typed fits several names."""


class RefusedError(SluiceError):
    """A publisher's message cannot be accepted at any attempt. It has a named reason, and says what to send instead."""

    quotes_nobody = False

    def __init__(self, reason: str, found: str, instead: str) -> None:
        super().__init__(f"{reason}: {found}; {instead}")
        #: The code of the reason, as in the catalogue of reasons.
        self.reason = reason
        self.found, self.instead = found, instead


class NewerVersionError(SluiceError):
    """A newer version of Sluice wrote this. Nothing is wrong with it, and it stays unchanged for a newer instance."""


class PayloadTamperedError(SluiceError):
    """A blob whose name is the hash of its content holds other bytes."""


class IdsError(SluiceError):
    """The root of the errors of generators of ids."""


class WaitExpiredError(IdsError):
    """No id came within the caller's deadline."""


class GeneratorClosedError(IdsError):
    """A generator was used after its close, or in a forked child of its process."""


class SequenceCorruptError(IdsError):
    """The blob of a sequence holds something that no generator wrote. No id is given from it."""


class SequenceLostError(IdsError):
    """The blob of a used sequence is gone. The sequence never restarts by itself."""


class SequenceRestoredError(IdsError):
    """The blob of a sequence holds an older or another history than the one that was written."""


class SequenceExhaustedError(IdsError):
    """A sequence has no numbers left below its limit."""


class GateError(SluiceError):
    """The root of the errors of gates."""


class NameRefusedError(GateError):
    """The name of a gate or a held entry does not fit its grammar."""


class GateCorruptError(GateError):
    """A gate's blob holds something that no writer of gates wrote. No work starts by it."""


class ScheduleRefusedError(GateError):
    """An opening was scheduled for a time at which it cannot happen."""


class HeldConflictError(GateError):
    """An id is held already with another message or destination. Neither is lost or replaced."""


class MessageRefusedError(GateError):
    """A message is too large for a storage queue, or has characters that no storage queue can carry."""


class DispatchIncompleteError(GateError):
    """Held work that may start could not be put on its queue. The next tick tries again."""


class SignalNotSentError(GateError):
    """The bus refused a signal. Waiting processes find the opening at their next poll."""


class ReleaseExpiredError(GateError, TimeoutError):
    """A gate was not opened within the caller's deadline. It is an error so that no caller starts by mistake."""


class WorkloadsRefusedError(SluiceError):
    """A setting names a workload that cannot be loaded or lacks something. The app does not start with it."""


class UnknownWorkloadError(SluiceError):
    """A job names a workload that this installation does not have."""


class UserExitError(Exception):
    """The user's code raised SystemExit or the like, which is no Exception. This one takes its place, and fails one message."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"{type(raised).__name__}: {raised}")
        self.raised = raised


class ResultRefusedError(SluiceError):
    """A stored result is unreadable, gone or changed, or a result message is larger than its limit."""

    quotes_nobody = False


class ResultNotSentError(SluiceError):
    """The bus refused a result. The chunk is redelivered and sends the stored result."""


class AttemptFailedError(SluiceError):
    """An invocation failed. It replaces the original error, with a message that a log may show."""


class RulesRefusedError(SluiceError):
    """The rules of concurrency are invalid, or another writer stored newer ones. Those in force stay."""


class TraceRefusedError(SluiceError):
    """A trace of the work queues has an invalid line."""


class NoSlotError(SluiceError):
    """A process had no slot or memory for a message in time. It is redelivered, perhaps to another process."""

    def __init__(self, text: str = "", *, waits_for: str = "", seconds: int | None = None) -> None:
        super().__init__(text)
        #: The scarce thing, for a person who sees the message wait.
        self.waits_for = waits_for
        #: After how many seconds it is redelivered. None: as after a failure.
        self.seconds = seconds


class NotCalledError(NoSlotError):
    """No call of a workload begins any more in this delivery: its time is over, or the service rests."""


class Later(SluiceError):  # noqa: N818 - a workload raises or returns it, and it is no fault
    """Raised or returned by `map`: the transaction is tried again after so many seconds, which is no fault of it.

    `found` says what it waits for, to a person. It is shown and logged, so let it quote nothing of a transaction.
    """

    #: The longest pause: a day.
    MOST: ClassVar[float] = 86_400.0

    def __init__(self, seconds: float, found: str = "") -> None:
        number: object = seconds
        if not isinstance(number, int | float) or not 0 <= seconds <= self.MOST:
            raise ValueError(f"Later was given {seconds!r}, expected seconds as a number from 0 to {self.MOST:.0f}")
        super().__init__(found)
        self.seconds, self.found = seconds, found


class PutOffError(SluiceError):
    """A message is delivered again after so many seconds, because it waits for something. It has not failed."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"put off for {seconds} s")
        self.seconds = seconds


class HaltedError(SluiceError):
    """A call did not begin, because the job of its transaction is paused or stopped. Its chunk is put again by a resume."""


class TooManyHaltsError(SluiceError):
    """So many jobs are being halted that no further one can be. Nothing was done."""


class NotStartedError(SluiceError):
    """A process of its own ended before it ran anything of its message, so that its end says nothing about the message."""


class ScalingRefusedError(SluiceError):
    """Azure refused to scale the app: it does not exist, its plan cannot be scaled so, or the operator lacks the right."""


class PricesError(SluiceError):
    """A price table is unreadable or invalid. The message says where to get a valid one."""


class ParkedError(SluiceError):
    """The root of the errors of parked entries."""


class NotParkedError(ParkedError):
    """Nothing is parked under a key, or the entry cannot be put back."""


class ParkedTamperedError(ParkedError):
    """The bytes of a parked message are missing or changed. They are not sent."""


class LedgerError(SluiceError):
    """The root of the errors of the ledger."""


class JobStateError(LedgerError):
    """A job's state does not allow the requested change."""


class ListPlaceError(LedgerError):
    """Raised when the list of jobs is to go on at a place that no page of it gave."""


class RowTooLargeError(LedgerError):
    """A row or a property is larger than Azure Tables takes. Azurite would take it."""


class LedgerCorruptError(LedgerError):
    """A row of the ledger holds something that Sluice never wrote. No decision uses it."""


class FinishRefusedError(LedgerError):
    """A job's outputs cannot be made from the values of its workload, at any attempt."""

    quotes_nobody = False


class FencedOffError(LedgerError):
    """A newer revision of the job has begun to write its totals. Further writes for this one do not count."""


class SettleIncompleteError(LedgerError):
    """Some results of a batch could not be credited now. The batch is redelivered."""


class PlanLostError(LedgerError):
    """A job's plan is missing, or holds other bytes than its name says. No chunk is dispatched by it."""


class NotPublishedError(SluiceError):
    """The bus may not have all events or commands of a home. They are stored, and are sent again."""


class DecisionFailedError(SluiceError):
    """A process failed at a message, by a defect. Its home is unchanged."""


class BudgetSpentError(SluiceError):
    """A batch took longer than it may. The messages come again, and what was done changes nothing."""


class HomeError(SluiceError):
    """The root of the errors of homes, which hold events."""


class ConflictError(HomeError):
    """A home is not at the expected version. Nothing was written."""


class DuplicateError(HomeError):
    """An outside id is in a home's inbox already. Nothing was written."""

    def __init__(self, message: str, *, id: str, is_same: bool) -> None:  # noqa: A002 - the word of the contract
        super().__init__(message)
        self.id = id
        #: Whether the stored id came with the same content.
        self.is_same = is_same


class CommitTooLargeError(HomeError):
    """A commit has more events, rows or bytes than one transaction takes. Nothing was written."""


class HomeCorruptError(HomeError):
    """A row of a home holds something that Sluice never wrote. No decision uses it."""


class LaterFormatError(HomeError, NewerVersionError):
    """A row of a home has a later format than this version of Sluice knows. It stays unchanged."""


class ReadModelError(SluiceError):
    """The root of the errors of read models."""


class MigrationRefusedError(ReadModelError):
    """A read model's migration cannot take a step: its phase, its version or another migrator forbids it."""


class ViewCorruptError(ReadModelError):
    """A row of a view or of the pointers holds something that Sluice never wrote, or the log lacks events of it."""


class SettingsError(ValueError):
    """Settings are missing or invalid. The message names all of them at once."""
