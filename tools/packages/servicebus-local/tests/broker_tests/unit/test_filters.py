"""Correlation filters beside what the client tests show."""

from types import MappingProxyType

import pytest
from servicebus_local.entities import SYSTEM_PROPERTIES, CorrelationFilter, SqlFilter, Subscription
from servicebus_local.filters import compiled_filter
from servicebus_local.parcel import Parcel


@pytest.mark.parametrize(("given", "expected"), [(True, True), (1, False), ("true", False), (None, False)])
def test_a_filter_on_a_flag_passes_no_number(given, expected):
    """Equal in Python is not equal in a filter: the type counts."""
    wanted = CorrelationFilter(MappingProxyType({"flag": True}))
    assert compiled_filter(wanted)(Parcel(b"", _application={"flag": given})) is expected


@pytest.mark.parametrize("name", sorted(set(SYSTEM_PROPERTIES.values()) - {"subject"}))
def test_a_filter_on_a_system_property_passes_what_equals_it(name):
    """Every one that Azure's filters know."""
    passes = compiled_filter(CorrelationFilter(system={name: "x"}))
    found = [passes(Parcel(b"", properties=given)) for given in ({name: "x"}, {name: "y"}, {})]
    assert found == [True, False, False]


def test_rules_are_named_by_their_place_where_nobody_named_them():
    """As the file of entities names them, and Azure the first one."""
    red, heavy = CorrelationFilter({"kind": "red"}), SqlFilter("weight > 10")
    assert Subscription("s", (red, heavy)).rules() == {"$Default": red, "rule-2": heavy}
    assert Subscription("s", (red,), names=("mine",)).rules() == {"mine": red}
    assert list(Subscription("s").rules()) == ["$Default"]


@pytest.mark.parametrize("names", [("a", "a"), ("a",)])
def test_a_rule_without_a_name_of_its_own_is_refused(names):
    """One of the two filters would be lost."""
    with pytest.raises(ValueError, match="each needs a name of its own"):
        Subscription("s", (SqlFilter("a = 1"), SqlFilter("b = 1")), names=names)
