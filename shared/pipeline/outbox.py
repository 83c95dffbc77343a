"""Tells the world that a job is finished: stored with the state that it tells of, sent at least once, then forgotten."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from shared.bus import BusSender, Destination
from shared.clock import Clock
from shared.connections import Connections
from shared.errors import SignalNotSentError
from shared.ledger.ledger import Event, Ledger
from shared.ledger.records import Job, JobState
from shared.payload.names import bus_name
from shared.pending import OUTBOX_POINTER, Pending, Pointer
from shared.pipeline.messages import Completed, Outcome, decode, encode
from shared.telemetry import events
from shared.telemetry.event import tell

_JOB_EVENTS: Final = Destination("topic", "job-events")
#: What subscriptions filter by.
KIND: Final = "completed"
#: Longer than any finisher takes between its pointer and its event.
GRACE: Final = timedelta(minutes=3)


def completed(job: Job) -> Completed:
    """Return the event of a job that was finished."""
    totals = job.totals
    return Completed(
        job=job.job,
        revision=job.revision,
        workload=job.workload,
        state=job.state.value,
        accepted=Outcome(items=totals.accepted.items),
        rejected=Outcome(items=totals.rejected.items),
        parked=Outcome(items=totals.parked.items),
    )


def event_of(job: Job) -> Event:
    """Return the event as it is stored beside the job; each revision has its own."""
    return Event(f"{job.revision:09}", encode(completed(job)).decode())


class Outbox:
    """The events of jobs; `announce` sends one, or raises SignalNotSentError."""

    def __init__(self, ledger: Ledger, pending: Pending, announce: Callable[[Completed], None], clock: Clock) -> None:
        self._ledger, self._pending, self._announce, self._clock = ledger, pending, announce, clock

    def point(self, job: str) -> Pointer:
        """Leave a pointer; before the event that it points to, since whoever writes that may end right after."""
        return self._pending.add(Pointer(OUTBOX_POINTER, self._clock.now() + GRACE, job))

    def flush(self, job: str, pointer: Pointer | None = None) -> int:
        """Send what was not sent, the oldest first, and forget the pointer to it; returns how many were sent."""
        unsent = self._ledger.events(job)
        for event in unsent:
            sent = decode(event.body)
            if isinstance(sent, Completed):
                self._announce(sent)
            # Only after it was sent: a second sending is harmless, none is not.
            self._ledger.remove_event(job, event.name)
        if pointer is not None:
            self._pending.remove(pointer)
        return len(unsent)

    def follow(self, pointer: Pointer) -> int:
        """Follow a pointer that is due: its writer may have ended before its event was sent."""
        late = self._clock.now() - pointer.due
        tell(events.OUTBOX_LATE, job=pointer.id, late_seconds=round(late.total_seconds()))
        job = self._ledger.read(pointer.id)
        if job is not None and job.state is JobState.FINISHING:
            # Its finisher may stand still between pointer and event. Removed now, the pointer would be missing later.
            self._pending.add(replace(pointer, due=self._clock.now() + GRACE))
        return self.flush(pointer.id, pointer)


class BusAnnouncements:
    """Sends events to the topic, with a connection of its own for each: jobs end rarely."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __call__(self, event: Completed) -> None:
        """Send the event, or raise SignalNotSentError."""
        names: dict[str | bytes, Any] = {"kind": KIND, "job": event.job, "state": event.state}
        message = ServiceBusMessage(
            encode(event),
            application_properties={**names, "revision": event.revision},
            subject=bus_name(event.job),
            content_type="application/json",
            message_id=bus_name(f"{event.job}:{event.revision}"),
        )
        try:
            with BusSender(self._connections, attempts=1) as sender:
                sender.send(_JOB_EVENTS, [message])
        except (ServiceBusError, OSError) as error:
            raise SignalNotSentError(
                f"nobody was told that job {event.job!r} is {event.state} ({type(error).__name__}): "
                "it stays in the outbox and the tick sends it"
            ) from error
