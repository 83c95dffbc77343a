"""The filters of a subscription, compiled once."""

from collections.abc import Callable

from servicebus_local.entities import CorrelationFilter, Filter, SqlFilter
from servicebus_local.parcel import Parcel
from servicebus_local.sql import compiled

Passes = Callable[[Parcel], bool]


def _correlation(wanted: CorrelationFilter) -> Passes:
    subject, properties = wanted.subject, tuple(wanted.properties.items())

    def passes(parcel: Parcel) -> bool:
        if subject is not None and parcel.properties.get("subject") != subject:
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


def passes_any(filters: tuple[Filter, ...]) -> Passes:
    """Return the filter of a subscription: one passing filter is enough, and no filter at all passes everything."""
    if not filters:
        return lambda _: True
    each = [_correlation(wanted) if isinstance(wanted, CorrelationFilter) else _sql(wanted) for wanted in filters]
    return lambda parcel: any(passes(parcel) for passes in each)
