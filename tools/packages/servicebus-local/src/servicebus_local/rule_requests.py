"""The requests of a rule manager: rules as clients write them, and as they read them."""

from collections.abc import Mapping
from typing import Any

from proton import Described, int32, symbol, ulong

from servicebus_local.entities import SYSTEM_PROPERTIES, CorrelationFilter, Filter, SqlFilter
from servicebus_local.refusal import ARGUMENT, Refusal, not_implemented
from servicebus_local.rules import Rules

#: What a rule, its action and its filter are described by. The service's filters have one zero less, and clients know it.
_RULE, _NO_ACTION = 0x13700000004, 0x13700000005
_SQL, _CORRELATION = 0x1370000006, 0x1370000009
#: The system properties of a correlation filter as a request names them, in the order of a reply.
_NAMES = {
    "correlation-id": "correlationId",
    "message-id": "messageId",
    "to": "to",
    "reply-to": "replyTo",
    "label": "label",
    "session-id": "sessionId",
    "reply-to-session-id": "replyToSessionId",
    "content-type": "contentType",
}


def add_rule(rules: Rules, body: Mapping[str, Any]) -> None:
    """Add the rule that a request describes."""
    described = _plain(body.get("rule-description"))
    if described.get("sql-rule-action") is not None:
        raise not_implemented("rule actions")
    rules.add(_rule_name(body), _filter(described))


def remove_rule(rules: Rules, body: Mapping[str, Any]) -> None:
    """Remove the rule that a request names."""
    rules.remove(_rule_name(body))


def list_rules(rules: Rules, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of the rules."""
    skip, top = int(body.get("skip", 0)), int(body.get("top", 100))
    return {"rules": [_written(name, one) for name, one in rules.listed()[skip : skip + top]]}


def _rule_name(body: Mapping[str, Any]) -> str:
    name = body.get("rule-name")
    if not isinstance(name, str) or not name:
        raise Refusal(ARGUMENT, f"rule-name is {name!r}, expected a name")
    return str(name)


def _plain(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {str(key): _plain_value(one) for key, one in value.items() if one is not None}


def _plain_value(value: Any) -> Any:
    """Return a value as a message's own properties are read: filters compare types too."""
    if isinstance(value, dict):
        return _plain(value)
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


def _filter(described: Mapping[str, Any]) -> Filter:
    if "sql-filter" in described:
        return SqlFilter(str(described["sql-filter"].get("expression", "")))
    if "correlation-filter" not in described:
        raise Refusal(ARGUMENT, "a rule has neither a sql-filter nor a correlation-filter")
    given = described["correlation-filter"]
    system = {SYSTEM_PROPERTIES[name]: given[key] for key, name in _NAMES.items() if key in given}
    return CorrelationFilter(given.get("properties", {}), system.pop("subject", None), system)


def _written(name: str, wanted: Filter) -> dict[str, Any]:
    if isinstance(wanted, SqlFilter):
        written = Described(ulong(_SQL), [wanted.expression, int32(20)])
    else:
        system = {**wanted.system, "subject": wanted.subject}
        values = [system.get(SYSTEM_PROPERTIES[known]) for known in _NAMES.values()]
        written = Described(
            ulong(_CORRELATION), [*values, {symbol(key): one for key, one in wanted.properties.items()}]
        )
    return {"rule-description": Described(ulong(_RULE), [written, Described(ulong(_NO_ACTION), []), name])}
