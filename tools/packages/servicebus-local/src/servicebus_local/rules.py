"""The rules of a subscription: a message that one of them lets through is copied there."""

from collections.abc import Mapping

from servicebus_local.entities import Filter
from servicebus_local.filters import Passes, compiled_filter
from servicebus_local.parcel import Parcel
from servicebus_local.refusal import ALREADY_EXISTS, NOT_FOUND, Refusal, not_implemented
from servicebus_local.sql import SqlRefusedError


class Rules:
    """Named filters, which clients may add and remove. Without any, nothing passes."""

    def __init__(self, subscription: str, given: Mapping[str, Filter]) -> None:
        self._subscription = subscription
        self._filters = dict(given)
        self._compiled: dict[str, Passes] = {name: compiled_filter(one) for name, one in given.items()}

    def passes(self, parcel: Parcel) -> bool:
        """Return true if one of the rules lets the message through."""
        return any(passes(parcel) for passes in self._compiled.values())

    def listed(self) -> list[tuple[str, Filter]]:
        """Return each rule with its name, in the order in which they were added."""
        return list(self._filters.items())

    def add(self, name: str, wanted: Filter) -> None:
        """Add a rule for the messages to come."""
        if name in self._filters:
            raise Refusal(ALREADY_EXISTS, f"{self._subscription} already has a rule {name!r}", 409)
        try:
            self._compiled[name] = compiled_filter(wanted)
        except SqlRefusedError as error:
            raise not_implemented(f"this filter: {error}") from error
        self._filters[name] = wanted

    def remove(self, name: str) -> None:
        """Remove a rule."""
        if name not in self._filters:
            raise Refusal(NOT_FOUND, f"the messaging entity {self._subscription}/Rules/{name} could not be found", 404)
        del self._filters[name], self._compiled[name]
