"""The Atom documents that administration clients read: an entry, a feed of entries, an error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

_ATOM = "http://www.w3.org/2005/Atom"
_SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"


def tag(name: str, content: object, attributes: Mapping[str, str] | None = None) -> str:
    """Return an element around text."""
    given = "".join(f" {key}={quoteattr(value)}" for key, value in (attributes or {}).items())
    if isinstance(content, bool):
        content = str(content).lower()
    return f"<{name}{given}>{content if isinstance(content, Markup) else escape(str(content))}</{name}>"


class Markup(str):
    """Text that is XML already."""

    __slots__ = ()


class Element(Markup):
    """A whole element, with its own tag."""

    __slots__ = ()


def tags(values: Mapping[str, object]) -> Markup:
    """Return an element for each value. One that is None has none."""
    written = (
        value if isinstance(value, Element) else tag(name, value) for name, value in values.items() if value is not None
    )
    return Markup("".join(written))


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: how many to skip, and how many to show at most."""

    skip: int
    top: int


def moment(when: float) -> str:
    """Return a time as the service writes it."""
    return datetime.fromtimestamp(when, UTC).isoformat().replace("+00:00", "Z")


def entry(address: str, title: str, kind: str, content: Markup, made: float) -> Markup:
    """Return an entity in its envelope."""
    described = Markup(tag(kind, content, {"xmlns": _SERVICE_BUS, "xmlns:i": _INSTANCE}))
    inside = (
        tag("id", address)
        + tag("title", title, {"type": "text"})
        + tag("published", moment(made))
        + tag("updated", moment(made))
        + tag("link", "", {"rel": "self", "href": address})
        + tag("content", described, {"type": "application/xml"})
    )
    return Markup(tag("entry", Markup(inside), {"xmlns": _ATOM}))


def feed(address: str, title: str, entries: Iterable[Markup], page: Page, made: float) -> Markup:
    """Return a page of entities, with the address of the next one where there may be more."""
    shown = list(entries)
    links = tag("link", "", {"rel": "self", "href": address})
    if len(shown) > page.top:
        following = f"{address}&$skip={page.skip + page.top}&$top={page.top}"
        links += tag("link", "", {"rel": "next", "href": following})
    head = tag("title", title, {"type": "text"}) + tag("id", address) + tag("updated", moment(made))
    return Markup(tag("feed", Markup(head + links + "".join(shown[: page.top])), {"xmlns": _ATOM}))


def error(code: int, detail: str) -> str:
    """Return why a request was refused."""
    return tag("Error", tags({"Code": code, "Detail": detail}))
