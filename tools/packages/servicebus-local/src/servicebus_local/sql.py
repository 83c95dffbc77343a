"""The part of Service Bus SQL filters that this broker knows, compiled once into a function of a message.

Anything else (LIKE, arithmetic, functions, parameters) is refused by name when the entities are read: a filter that is
quietly wrong would look like a lost message.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol


class SqlRefusedError(ValueError):
    """Raised when an expression is outside the subset. Names the word that is."""


class Properties(Protocol):
    """The properties of a message that an expression may use."""

    @property
    def properties(self) -> dict[str, Any]:
        """The message's own properties by their AMQP names."""

    @property
    def application_properties(self) -> dict[str, Any]:
        """The user's properties."""


#: True, False, or None where a property that it needs is missing or of another type: SQL's unknown.
Condition = Callable[[Properties], bool | None]
Operand = Callable[[Properties], Any]

_SYSTEM = {
    "label": "subject",
    "subject": "subject",
    "messageid": "message_id",
    "correlationid": "correlation_id",
    "contenttype": "content_type",
    "to": "to",
    "replyto": "reply_to",
    "sessionid": "group_id",
    "replytosessionid": "reply_to_group_id",
}
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "exists", "true", "false"})
_REFUSED_WORDS = frozenset({"like", "escape", "newid", "p", "property"})
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>'(?:[^']|'')*')
      | (?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<quoted>"(?:[^"]|"")+"|\[(?:[^\]]|\]\])+\])
      | (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
      | (?P<sign><>|!=|<=|>=|[=<>(),.])
      | (?P<strange>\S)
    )""",
    re.VERBOSE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "<>": lambda left, right: bool(left != right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    ">": lambda left, right: bool(left > right),
    "<=": lambda left, right: bool(left <= right),
    ">=": lambda left, right: bool(left >= right),
}


def _tokens(expression: str) -> list[tuple[str, str]]:
    found = []
    for match in _TOKEN.finditer(expression.rstrip()):
        kind = match.lastgroup or "strange"
        text = match[kind]
        if kind == "strange":
            raise SqlRefusedError(f"SQL filter {expression!r} uses {text!r}, which this broker does not know")
        if kind == "word" and text.lower() in _REFUSED_WORDS:
            raise SqlRefusedError(f"SQL filter {expression!r} uses {text.upper()}, which this broker does not know")
        found.append(("keyword", text.lower()) if kind == "word" and text.lower() in _KEYWORDS else (kind, text))
    return found


def _comparable(left: Any, right: Any) -> bool:
    numbers = (int, float)
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    return (isinstance(left, numbers) and isinstance(right, numbers)) or type(left) is type(right)


def _compared(sign: str, left: Operand, right: Operand) -> Condition:
    compare = _COMPARISONS[sign]

    def holds(message: Properties) -> bool | None:
        a, b = left(message), right(message)
        return compare(a, b) if a is not None and b is not None and _comparable(a, b) else None

    return holds


def _negated(condition: Condition) -> Condition:
    def holds(message: Properties) -> bool | None:
        value = condition(message)
        return None if value is None else not value

    return holds


def _joined(left: Condition, right: Condition, *, decisive: bool) -> Condition:
    """AND is decided by a False, OR by a True. Short of that, one unknown makes the whole unknown."""

    def holds(message: Properties) -> bool | None:
        values = (left(message), right(message))
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    return holds


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = _tokens(expression)
        self._at = 0

    def condition(self) -> Condition:
        whole = self._either()
        if self._at < len(self._tokens):
            raise self._refusal()
        return whole

    def _refusal(self) -> SqlRefusedError:
        rest = self._tokens[self._at][1] if self._at < len(self._tokens) else "its end"
        return SqlRefusedError(
            f"SQL filter {self._expression!r} is not in the subset that this broker knows, at {rest}"
        )

    def _next_is(self, *texts: str) -> bool:
        ahead = self._tokens[self._at : self._at + len(texts)]
        return [text for kind, text in ahead if kind in {"keyword", "sign"}] == list(texts)

    def _took(self, *texts: str) -> bool:
        if not self._next_is(*texts):
            return False
        self._at += len(texts)
        return True

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise self._refusal()

    def _either(self) -> Condition:
        left = self._both()
        while self._took("or"):
            left = _joined(left, self._both(), decisive=True)
        return left

    def _both(self) -> Condition:
        left = self._maybe_negated()
        while self._took("and"):
            left = _joined(left, self._maybe_negated(), decisive=False)
        return left

    def _maybe_negated(self) -> Condition:
        if self._took("not"):
            return _negated(self._maybe_negated())
        if self._took("("):
            inside = self._either()
            self._expect(")")
            return inside
        if self._took("exists", "("):
            name = self._operand()
            self._expect(")")
            return lambda message: name(message) is not None
        return self._predicate()

    def _predicate(self) -> Condition:
        left = self._operand()
        if self._took("is", "not", "null"):
            return lambda message: left(message) is not None
        if self._took("is", "null"):
            return lambda message: left(message) is None
        if self._took("not", "in"):
            return _negated(self._membership(left))
        if self._took("in"):
            return self._membership(left)
        for sign in _COMPARISONS:
            if self._took(sign):
                return _compared(sign, left, self._operand())
        return _compared("=", left, lambda _: True)

    def _membership(self, left: Operand) -> Condition:
        self._expect("(")
        condition = _compared("=", left, self._operand())
        while self._took(","):
            condition = _joined(condition, _compared("=", left, self._operand()), decisive=True)
        self._expect(")")
        return condition

    def _operand(self) -> Operand:
        if self._at >= len(self._tokens):
            raise self._refusal()
        kind, text = self._tokens[self._at]
        if kind == "sign" or (kind == "keyword" and text not in {"true", "false"}):
            raise self._refusal()
        self._at += 1
        if kind in {"word", "quoted"}:
            return self._property(text)
        value = _literal(kind, text)
        return lambda _: value

    def _property(self, text: str) -> Operand:
        scope = text.lower()
        if scope in {"sys", "user"} and self._took("."):
            text = self._tokens[self._at][1] if self._at < len(self._tokens) else ""
            self._at += 1
        if scope != "sys":
            name = text.strip('"[]').lower()
            return lambda message: next(
                (v for k, v in message.application_properties.items() if k.lower() == name), None
            )
        if text.lower() not in _SYSTEM:
            raise SqlRefusedError(f"SQL filter {self._expression!r} uses sys.{text}, which this broker does not know")
        key = _SYSTEM[text.lower()]
        return lambda message: message.properties.get(key)


def _literal(kind: str, text: str) -> str | float | bool:
    if kind == "string":
        return text[1:-1].replace("''", "'")
    if kind == "keyword":
        return text == "true"
    return float(text) if set(text) & set(".eE") else int(text)


def compiled(expression: str) -> Condition:
    """Return the expression as a function of a message, or refuse it by name."""
    return _Parser(expression).condition()
