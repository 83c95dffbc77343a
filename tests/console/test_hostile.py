"""Texts of others are text on every page, whatever they hold."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from capabilities.console.render import clean
from shared.azure import Governor
from shared.ledger import JobState
from shared.operating import ActKey, ReplayPace, Selection
from tests.console.conftest import Installation
from tests.console.fillings import NOON, decide, hold, make_entry, make_job, park, put_job
from tests.console.hostile import TEXTS

#: All that a page of the console is made of.
ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "svg",
    "path",
    "nav",
    "form",
    "label",
    "input",
    "main",
    "div",
    "h1",
    "h2",
    "h3",
    "p",
    "section",
    "ul",
    "li",
    "strong",
    "span",
    "small",
    "dl",
    "dt",
    "dd",
    "code",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "rect",
    "details",
    "summary",
    "footer",
    "time",
    "article",
    "ol",
    "button",
    "textarea",
    "select",
    "option",
    "pre",
    "fieldset",
    "noscript",
    "legend",
    "b",
    "em",
}


class Markup(HTMLParser):
    """The elements, the attributes and the texts of a page."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.comments, self.texts = set(), {}, [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Keep it."""
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_comment(self, data):
        """Keep it."""
        self.comments.append(data)

    def handle_data(self, data):
        """Keep it."""
        self.texts.append(data)


@pytest.fixture(scope="module", autouse=True)
def filled(own_memory):
    """Every field that a publisher, a workload, a worker or another operator fills, with each text."""
    made = Installation(own_memory.connection_string, own_memory)
    stores = made.stores
    with made.connections:
        for number, text in enumerate(TEXTS):
            paused = {"state": JobState.PAUSED, "problem": text, "gate": f"gate-{number}", "workload": text}
            put_job(stores, make_job(f"job-{number}", chunks=4, done=2, parked=1, **paused))
            entry = make_entry(f"job-{number}", 1, reason=text, found=text, instead=text, place=text, note=text)
            park(stores, replace(entry, fingerprint=f"cause{number}", stage=text, queue=text, message_id=text))
            hold(stores, f"gate-{number}", 1)
            stores.gate_operator.open(f"gate-{number}", by=text, why=text)
            stores.build_parked_operator(_wait_for_nothing).ask_replay(
                Selection(fingerprint=f"cause{number}"),
                ReplayPace(),
                by=text,
                why=text,
                named=ActKey(NOON, f"{number:08}"),
            )
        governors = {
            f"storage/{text}".translate({ord(bad): None for bad in "/\\#?\x1b\x08\x07\r\n"}): Governor()
            for text in TEXTS[:20]
        }
        decide(stores, reason=TEXTS[0] + TEXTS[20], governors=governors)
        yield


def _wait_for_nothing(_seconds):
    """Return at once."""


def pages():
    """Return the path of every page that shows such texts."""
    yield from (
        "/",
        "/jobs",
        "/gates",
        "/parked",
        "/replays",
        "/rules",
        "/audit",
        "/ids",
        "/cost",
        "/jobs?id=%3Cscript%3Eevil()%3C/script%3E",
    )
    for number in range(len(TEXTS)):
        yield from (f"/job/job-{number}", f"/gate/gate-{number}", f"/parked/cause{number}")
        yield f"/parked/job-{number}/chunk-000000001-1"
        yield f"/replay/{NOON:%Y%m%d-%H%M%S}-{number:08}"


def test_no_text_becomes_markup(visitor):
    """Only elements and attributes of the console's own; no comment, no character that turns a line."""
    seen = 0
    for path in pages():
        reply = visitor.get(path)
        assert reply.status_code == 200, path
        found = Markup(reply.text)
        assert (path, found.elements - ELEMENTS) == (path, set())
        assert (path, found.comments) == (path, [])
        assert (path, [name for name in found.attributes if name.startswith("on") or name in {"style", "srcdoc"}]) == (
            path,
            [],
        )
        addresses = found.attributes.get("href", set()) | found.attributes.get("src", set())
        assert (path, [one for one in addresses if not one.startswith((visitor.folder, "#content", "#pages"))]) == (
            path,
            [],
        )
        assert (path, [one for one in reply.text if not one.isprintable() and one != "\n"]) == (path, [])
        seen += sum("evil" in text for text in found.texts)
    assert seen > 10 * len(TEXTS)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_each_text_is_read_as_it_was_written(visitor, number):
    """Shown in full, with its control characters as their codes, on the page of its entry."""
    texts = Markup(visitor.get(f"/parked/job-{number}/chunk-000000001-1").text).texts
    wanted = clean(TEXTS[number])
    assert sum(wanted in text for text in texts) >= 5


def test_a_text_of_the_address_is_text(visitor):
    """Also where nothing is found."""
    for path in (
        "/job/<script>evil()</script>",
        "/gate/<script>evil()",
        "/parked/%3Csvg%20onload=evil()%3E",
        "/x%0d%0aSet-Cookie:a=b",
    ):
        reply = visitor.get(path)
        assert reply.status_code == 404
        assert "evil" not in str(Markup(reply.text).elements)
        assert "Set-Cookie" not in reply.headers
