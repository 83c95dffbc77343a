"""The filters of a subscription, compiled once."""

from collections.abc import Callable

from servicebus_local.entities import CorrelationFilter, Filter, SqlFilter
from servicebus_local.parcel import Parcel
from servicebus_local.sql import compiled

Passes = Callable[[Parcel], bool]


def _correlation(wanted: CorrelationFilter) -> Passes:
    system = dict(wanted.system) if wanted.subject is None else {**wanted.system, "subject": wanted.subject}
    properties = tuple(wanted.properties.items())

    def passes(parcel: Parcel) -> bool:
        if any(parcel.properties.get(name) != value for name, value in system.items()):
            return False
        if not properties:
            return True
        given = parcel.application_properties
        # True == 1 in Python, and a filter on a flag must not pass a number.
        return all(given.get(key) == value and type(given.get(key)) is type(value) for key, value in properties)

    return passes


def _sql(wanted: SqlFilter) -> Passes:
    condition = compiled(wanted.expression)
    return lambda parcel: condition(parcel) is True


def compiled_filter(wanted: Filter) -> Passes:
    """Return a filter as a function of a message. SQL that the broker does not know is refused by name."""
    return _correlation(wanted) if isinstance(wanted, CorrelationFilter) else _sql(wanted)
