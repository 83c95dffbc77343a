"""What the listener tests share: an invoke that records, and builders of functions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from azure.functions.meta import Datum, get_binding_registry
from functions_local_host.contract import Binding, IndexedFunction, Listener, Outcome

DEADLINE = 600.0

Behave = Callable[[Datum, Mapping[str, Datum]], Awaitable[bool]]


async def succeed(_trigger, _metadata):
    """Behave as a function that returns."""
    return True


async def fail(_trigger, _metadata):
    """Behave as a function that raises."""
    return False


class Recorder:
    """An `Invoke` that notes every call and then behaves as the test says."""

    def __init__(self, behave: Behave = succeed):
        self.behave = behave
        self.calls: list[tuple[Datum, Mapping[str, Datum]]] = []
        self.running = 0
        self.most_running = 0

    async def __call__(self, function: str, trigger: Datum, metadata: Mapping[str, Datum]) -> Outcome:
        """Record, behave, and return the outcome."""
        self.calls.append((trigger, metadata))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return Outcome(ok=await self.behave(trigger, metadata))
        finally:
            self.running -= 1

    @property
    def bodies(self) -> list:
        """The trigger values, in the order of their calls."""
        return [trigger.value for trigger, _ in self.calls]

    def messages(self, binding: str) -> list:
        """The calls as the worker's own converter decodes them."""
        converter = get_binding_registry().get(binding)
        return [converter.decode(trigger, trigger_metadata=metadata) for trigger, metadata in self.calls]


class Held:
    """A behaviour that keeps every run going until it is released."""

    def __init__(self, *, ok: bool = True):
        self.ok = ok
        self.released = asyncio.Event()

    async def __call__(self, _trigger, _metadata):
        """Wait for the release."""
        await self.released.wait()
        return self.ok


def queue_function(queue: str, **settings) -> IndexedFunction:
    """Return a function with a trigger for one storage queue."""
    return IndexedFunction("onWork", Binding("queueTrigger", "msg", {"queueName": queue, **settings}))


def bus_function(**settings) -> IndexedFunction:
    """Return a function with a Service Bus trigger."""
    return IndexedFunction("onEvent", Binding("serviceBusTrigger", "msg", settings))


@asynccontextmanager
async def listening(*listeners: Listener) -> AsyncIterator[None]:
    """Run the listeners, then stop them and wait until they have ended."""
    tasks = [asyncio.create_task(listener.run()) for listener in listeners]
    try:
        yield
    finally:
        for listener in listeners:
            listener.stop()
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*tasks)


async def until(condition: Callable[[], bool | Awaitable[bool]], deadline: float = DEADLINE) -> None:
    """Poll until the condition holds; the deadline only ends a test that has failed."""
    async with asyncio.timeout(deadline):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)
