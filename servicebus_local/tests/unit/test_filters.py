"""Correlation filters beside what the client tests show."""

from types import MappingProxyType

import pytest

from servicebus_local.entities import CorrelationFilter
from servicebus_local.filters import passes_any
from servicebus_local.parcel import Parcel


@pytest.mark.parametrize(("given", "expected"), [(True, True), (1, False), ("true", False), (None, False)])
def test_a_filter_on_a_flag_passes_no_number(given, expected):
    """Equal in Python is not equal in a filter: the type counts."""
    wanted = CorrelationFilter(MappingProxyType({"flag": True}))
    assert passes_any((wanted,))(Parcel(b"", _application={"flag": given})) is expected
