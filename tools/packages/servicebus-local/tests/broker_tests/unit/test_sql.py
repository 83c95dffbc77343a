"""The SQL subset: what it means, and what is refused by name."""

import pytest
from servicebus_local.entities import SqlFilter
from servicebus_local.filters import compiled_filter
from servicebus_local.parcel import Parcel
from servicebus_local.sql import SqlRefusedError, compiled

_MESSAGE = Parcel(
    b"",
    properties={"subject": "urgent", "message_id": "m-1", "correlation_id": "c", "group_id": "s"},
    _application={"kind": "red", "weight": 11, "share": 0.5, "flag": True, "odd name": "x", "quote": "it's"},
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("TRUE", True),
        ("1=1", True),
        ("1 = 0", False),
        ("kind = 'red'", True),
        ("KIND = 'red'", True),
        ("user.kind = 'red'", True),
        ("kind = 'Red'", False),
        ("kind <> 'blue'", True),
        ("kind != 'red'", False),
        ("weight > 10", True),
        ("weight >= 11 AND weight <= 11", True),
        ("weight < 10.5", False),
        ("share = 5e-1", True),
        ("weight > -1", True),
        ("flag = TRUE", True),
        ("flag", True),
        ("NOT flag", False),
        ("kind IN ('blue', 'red')", True),
        ("kind NOT IN ('blue', 'red')", False),
        ("missing IS NULL", True),
        ("kind IS NOT NULL", True),
        ("EXISTS(kind)", True),
        ("NOT EXISTS(missing)", True),
        ("sys.Label = 'urgent'", True),
        ("sys.Subject = 'urgent' AND sys.MessageId = 'm-1'", True),
        ("sys.CorrelationId = 'c' AND sys.SessionId = 's'", True),
        ("sys.To IS NULL", True),
        ("[odd name] = 'x' AND \"odd name\" = 'x'", True),
        ("quote = 'it''s'", True),
        ("kind = 'blue' AND weight = 11 OR flag = TRUE", True),
        ("kind = 'blue' AND (weight = 11 OR flag = TRUE)", False),
        ("missing = 1", None),
        ("NOT missing = 1", None),
        ("missing = 1 OR kind = 'red'", True),
        ("missing = 1 AND kind = 'blue'", False),
        ("missing = 1 AND kind = 'red'", None),
        ("weight = '11'", None),
        ("flag = 1", None),
    ],
)
def test_an_expression_means_what_it_does_in_service_bus(expression, expected):
    """Names fold case, values do not; a missing property makes a comparison unknown."""
    assert compiled(expression)(_MESSAGE) is expected


def test_unknown_does_not_pass():
    """A filter passes a message only where it holds."""
    assert not compiled_filter(SqlFilter("NOT missing = 1"))(_MESSAGE)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("kind LIKE 'r%'", "LIKE"),
        ("newid() = '1'", "NEWID"),
        ("weight + 1 = 12", r"\+"),
        ("weight % 2 = 1", "%"),
        ("kind = @p", "@"),
        ("sys.EnqueuedTimeUtc = 1", "EnqueuedTimeUtc"),
        ("kind = ", "its end"),
        ("(kind = 'red'", "its end"),
        ("kind = 'red' 'blue'", "blue"),
        ("", "its end"),
    ],
)
def test_anything_else_is_refused_by_name(expression, named):
    """The refusal quotes the expression and the word in it."""
    with pytest.raises(SqlRefusedError, match=named):
        compiled(expression)
