"""Whoever subscribed to a listener."""

from collections.abc import Callable
from threading import Lock

from shared.dequeue.listening import Observer
from shared.pipeline.messages import Delivery
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told


class Observers:
    """Tells all of them; one that fails is logged and keeps neither the others nor the work from going on."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._lock = Lock()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell this one too from now on; returns what ends it."""
        with self._lock:
            self._observers.append(observer)
        return lambda: self._unsubscribe(observer)

    def on_next(self, delivery: Delivery) -> None:
        """Tell of a message that was handled."""
        self._tell(lambda one: one.on_next(delivery))

    def on_error(self, error: BaseException, delivery: Delivery | None = None) -> None:
        """Tell of a message whose handler failed, or, without one, of a queue that did not answer."""
        self._tell(lambda one: one.on_error(error, delivery))

    def on_completed(self) -> None:
        """Tell that a task ended."""
        self._tell(lambda one: one.on_completed())

    def _unsubscribe(self, observer: Observer) -> None:
        with self._lock:
            self._observers = [one for one in self._observers if one is not observer]

    def _tell(self, call: Callable[[Observer], None]) -> None:
        with self._lock:
            observers = list(self._observers)
        for one in observers:
            try:
                call(one)
            except Exception as error:  # noqa: BLE001 - it is somebody else's code
                tell(events.LISTENER_OBSERVER_FAILED, error=told(error), at=place(error))
