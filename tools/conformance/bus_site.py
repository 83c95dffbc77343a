"""Entities of a run's own on the bus, made by its administration. Else entities that are prepared for such runs."""

from contextlib import closing
from threading import Lock
from typing import Any, Final

from azure.core.exceptions import AzureError, HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusReceiveMode

from shared.azure import Connections, is_missing, is_refused
from tools.conformance.belongings import Belongings, UncheckableError, first_line
from tools.conformance.bus_wishes import COLOUR, LOCK, PREFIX, UNUSED, QueueWish, TopicWish

ROLE: Final = "Azure Service Bus Data Owner"
#: What a stand-in answers whose entities are fixed.
_NOT_IMPLEMENTED: Final = 501
#: Seconds without a message after which a prepared entity is empty.
_EMPTY: Final = 0.5


class BusSite:
    """The queues and topics of one run on the bus."""

    def __init__(self, connections: Connections, nonce: str, belongings: Belongings) -> None:
        self._connections, self._nonce, self._belongings = connections, nonce, belongings
        self._lock = Lock()
        self._names: dict[str, str] = {}
        #: Why this run makes no entities. Empty while it does.
        self.obstacle = ""
        #: Whether there is an administration that answers anything but a refusal of the login.
        self._has_answered = False

    def bus(self) -> ServiceBusClient:
        """Open a client of the bus. The caller closes it."""
        return self._connections.bus_client()

    def bus_queue(self, wish: QueueWish) -> str:
        """Return the name of a queue with these rules."""
        with self._lock:
            if wish.name not in self._names:
                self._names[wish.name] = self._queue(wish)
            return self._names[wish.name]

    def bus_topic(self, wish: TopicWish) -> str:
        """Return the name of a topic with these subscriptions."""
        with self._lock:
            if wish.name not in self._names:
                self._names[wish.name] = self._topic(wish)
            return self._names[wish.name]

    def _queue(self, wish: QueueWish) -> str:
        own = f"{PREFIX}-{self._nonce}-{wish.name}"
        if not self.obstacle and self._made("bus queue", own, lambda admin: _make_queue(admin, own, wish)):
            return own
        with self.bus() as bus:
            # A prepared queue of sessions needs no clearing: each run has sessions of its own.
            name = prepared(wish.name)
            self._clear(lambda: bus.get_queue_receiver(name, **_session(wish), receive_mode=_DELETES))
        return name

    def _topic(self, wish: TopicWish) -> str:
        own = f"{PREFIX}-{self._nonce}-{wish.name}"
        if not self.obstacle and self._made("topic", own, lambda admin: _make_topic(admin, own, wish)):
            return own
        name = prepared(wish.name)
        with self.bus() as bus:
            for subscription in wish.passes:
                self._clear(
                    lambda subscription=subscription: bus.get_subscription_receiver(
                        name, subscription, receive_mode=_DELETES
                    )
                )
        return name

    def _made(self, kind: str, name: str, make: Any) -> bool:
        with self._connections.bus_administration() as admin:
            try:
                self._belongings.make(kind, name, lambda: make(admin), lambda: self._remove(kind, name))
                self._has_answered = True
            except HttpResponseError as error:
                if not is_refused(error) and error.status_code != _NOT_IMPLEMENTED:
                    self._has_answered = True
                    raise
                self._belongings.forget(kind, name)
                self.obstacle = f"your login may make no entities of the bus (role {ROLE})"
                if error.status_code == _NOT_IMPLEMENTED:
                    self.obstacle = "this bus makes no entities"
            except AzureError as error:
                self.obstacle = f"the administration of the bus does not answer ({first_line(error)})"
        return not self.obstacle

    def _remove(self, kind: str, name: str) -> None:
        if not self._has_answered:
            # Nothing was made. If the reply to the first one was lost, the service removes it as unused.
            return
        with self._connections.bus_administration() as admin:
            (admin.delete_topic if kind == "topic" else admin.delete_queue)(name)

    def _clear(self, receiver: Any) -> None:
        try:
            with closing(receiver()) as made, made as opened:
                while opened.receive_messages(max_message_count=100, max_wait_time=_EMPTY):
                    pass
        except AzureError as error:
            if not is_missing(error):
                raise
            raise UncheckableError(f"{self.obstacle}, and none is prepared: docs/proof.md") from error


_DELETES: Final = ServiceBusReceiveMode.RECEIVE_AND_DELETE


def prepared(name: str) -> str:
    """Return the name of an entity that serves the runs of logins that may make none."""
    return f"{PREFIX}-{name}"


def _session(wish: QueueWish) -> Any:
    return {"session_id": PREFIX} if wish.sessions else {}


def _make_queue(admin: Any, name: str, wish: QueueWish) -> None:
    window = {"duplicate_detection_history_time_window": wish.window} if wish.window else {}
    admin.create_queue(
        name,
        lock_duration=LOCK,
        max_delivery_count=wish.max_deliveries,
        requires_session=wish.sessions,
        requires_duplicate_detection=wish.window is not None,
        auto_delete_on_idle=UNUSED,
        **window,
    )


def _make_topic(admin: Any, name: str, wish: TopicWish) -> None:
    from azure.servicebus.management import CorrelationRuleFilter  # noqa: PLC0415 - loads slowly

    admin.create_topic(name, auto_delete_on_idle=UNUSED)
    for subscription, passed in wish.passes.items():
        admin.create_subscription(name, subscription, lock_duration=LOCK)
        admin.create_rule(name, subscription, "colour", filter=CorrelationRuleFilter(properties={COLOUR: passed}))
        admin.delete_rule(name, subscription, "$Default")
