"""Learns how a publisher's lines look, so that lines of the same layout need no close look.

A layout is a line that was read exactly, with each scalar value replaced by any scalar within bounds. What matches it
differs from that line in scalars only: it has the same keys, none twice, and the same depth. Four things a layout
leaves to who asks: the text is UTF-8, and each line is JSON by itself, which says that no text runs over a line's
end, that no control character stands in one, and that texts and numbers are well formed.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from shared.errors import RefusedError
from shared.payload import strict_json
from shared.payload.decimals import VALUE

#: How many layouts are remembered: jobs of several publishers run beside each other.
MOST_KNOWN: Final = 8
#: Lines that are looked at to learn, and layouts that may be found among them: one that takes turns has few.
SAMPLES, MOST_MIXED = 12, 3
#: A layout costs memory and about a millisecond to compile; of the pattern of several, bytes.
LONGEST, MOST_TOKENS, LONGEST_PATTERN = 4096, 320, 16 * 1024
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"[ \t\r]*:?|[-+.0-9A-Za-z]+|[][{}, \t\r]')
_NUMBER: Final = rb"-?[0-9]{1,38}(?:\.[0-9]{1,38})?"
_AMOUNT: Final = rb'(?:"%b"|%b|null)' % (VALUE.encode(), VALUE.encode())
#: Where no text has an escape, a quotation mark ends it. One that has may spell anything but a surrogate.
_PLAIN: Final = rb'"[^"]*+"'
_SCALAR: Final = rb"(?:%b|%b|true|false|null)" % (_PLAIN, _NUMBER)
_ESCAPED: Final = (
    rb'"[^"\\]*+(?:\\(?:["\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))[^"\\]*+)*"'
)


class _Layout:
    """The layouts of some lines, as one pattern of any number of such lines."""

    def __init__(self, source: bytes) -> None:
        self.source, self._plain = source, re.compile(source)

    def fits(self, text: bytes, *, has_escapes: bool) -> bool:
        return (self._escaped if has_escapes else self._plain).fullmatch(text) is not None

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        # What a line says literally is escaped for the pattern, so that it never looks like this.
        return re.compile(self.source.replace(_PLAIN, _ESCAPED))


class Layouts:
    """The layouts that were learned last, in the light of the fields that must be amounts."""

    def __init__(self, fields: Sequence[str], depth: int) -> None:
        self._fields, self._depth = frozenset(b'"%b"' % name.encode() for name in fields), depth
        #: Replaced as a whole, for several threads read.
        self._known: tuple[_Layout, ...] = ()

    def fit(self, text: bytes) -> bool:
        """Whether each line of the text, all ended by line feeds, has a layout that is known."""
        has_escapes = b"\\" in text
        return any(known.fits(text, has_escapes=has_escapes) for known in self._known)

    def learn(self, lines: Sequence[bytes]) -> None:
        """Remember how these lines look, unless they look too different from each other."""
        found: set[bytes] = set()
        for line in lines[:: max(1, len(lines) // SAMPLES)]:
            layout = self._layout(line)
            if layout is not None:
                found.add(layout)
            if len(found) > MOST_MIXED:
                return
        source = b"(?:(?:%b)\n)*" % b"|".join(sorted(found))
        if found and len(source) <= LONGEST_PATTERN and all(source != known.source for known in self._known):
            self._known = (_Layout(source), *self._known[: MOST_KNOWN - 1])

    def _layout(self, line: bytes) -> bytes | None:
        """Return the pattern of a line, or None for one that no other line is measured by."""
        if len(line) > LONGEST or not self._is_strict(line):
            return None
        tokens = _TOKEN.findall(line)
        return None if len(tokens) > MOST_TOKENS else self._pattern(tokens)

    def _is_strict(self, line: bytes) -> bool:
        try:
            return isinstance(strict_json.read(line, self._depth), dict)
        except RefusedError:
            return False

    def _pattern(self, tokens: list[bytes]) -> bytes | None:
        parts, depth, is_amount = [], 0, False
        for token in tokens:
            if token.endswith(b":") and token.startswith(b'"'):
                if b"\\" in token:
                    return None
                is_amount = depth == 1 and token[:-1].rstrip() in self._fields
                parts.append(re.escape(token))
            elif token[:1] in b" \t\r,":
                parts.append(re.escape(token))
            elif token in b"{[}]":
                if is_amount:
                    return None
                depth += 1 if token in b"{[" else -1
                parts.append(re.escape(token))
            else:
                parts.append(_AMOUNT if is_amount else _SCALAR)
                is_amount = False
        return b"".join(parts)
