"""The entity that a Service Bus trigger receives from, and the options of its binding."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from functions_local_host.contract import Binding


@dataclass(frozen=True, slots=True)
class BusSource:
    """A queue, or one subscription of a topic."""

    queue: str = ""
    topic: str = ""
    subscription: str = ""

    @classmethod
    def of(cls, trigger: Binding) -> "BusSource":
        """Return the source that a trigger names."""
        names = [str(trigger.settings.get(key) or "") for key in ("queueName", "topicName", "subscriptionName")]
        return cls(*names)

    def receiver(self, client: ServiceBusClient, **options: Any) -> ServiceBusReceiver:
        """Return a peek-lock receiver. `session_id` and others pass to the SDK."""
        if self.queue:
            return client.get_queue_receiver(self.queue, **options)
        return client.get_subscription_receiver(self.topic, self.subscription, **options)

    def __str__(self) -> str:
        return self.queue or f"{self.topic}/{self.subscription}"


@dataclass(frozen=True, slots=True)
class BusTrigger:
    """How a trigger wants its messages."""

    source: BusSource
    is_batch: bool
    has_sessions: bool
    completes: bool

    @classmethod
    def of(cls, trigger: Binding, *, completes: bool) -> "BusTrigger":
        """Read the binding. `completes` is the value of host.json, for a trigger without one."""
        settings = trigger.settings
        return cls(
            BusSource.of(trigger),
            is_batch=str(settings.get("cardinality") or "ONE").upper() == "MANY",
            has_sessions=_flag(settings, "isSessionsEnabled", default=False),
            completes=_flag(settings, "autoCompleteMessages", default=completes),
        )


def _flag(settings: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = settings.get(key)
    return default if value is None else str(value).lower() == "true"
