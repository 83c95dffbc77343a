"""The console as a function: who is let in by Azure's header, and requests and replies as they are."""

import json
import re
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import azure.functions as func
import pytest
from azure.functions.http import HttpResponseConverter
from werkzeug.wrappers import Request, Response

from capabilities.console import function as mount
from capabilities.console.app import Application
from capabilities.console.azure_login import AzureLogin
from capabilities.console.pages import ROUTES
from capabilities.console.visit import View
from functions.of_capability import make_reply, read_call
from shared.telemetry import events
from shared.usage import load
from tests.console.fillings import hold
from tests.console.principals import NAME, OBJECT_ID, ROLE, describe, encode

HOST = "func-sluice.example"
BASE = f"https://{HOST}/api/console"


class Caller:
    """Sends requests as the worker hands them to the function."""

    def __init__(self, application):
        self._application = application

    def send(self, path="/", method="GET", principal=None, body=b"", **headers):
        """Send one. A word's underscore is a hyphen of the header's name."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if principal is not None:
            sent["x-ms-client-principal"] = principal
        url = path if path.startswith("http") else f"{BASE}{path}"
        return self.hand_on(func.HttpRequest(method, url, headers=sent, body=body))

    def hand_on(self, request):
        """Hand a request on as the function does."""
        return make_reply(mount.send(self._application, read_call(request)))


@pytest.fixture
def caller(house):
    """A sender to the pages of an installation."""
    view = View(stores=house.stores, snapshot=house.snapshot, clock=house.clock, prices=load())
    return Caller(Application(view, AzureLogin()))


def echo(environ, start):
    """Say what arrived, as a WSGI application that stands in for the pages."""
    request = Request(environ)
    document = {"path": request.path, "root": request.root_path, "args": request.args.to_dict(), "host": request.host}
    document |= {"form": request.form.to_dict(), "headers": dict(request.headers), "url": request.host_url}
    response = Response(json.dumps(document), 503 if "fail" in request.args else 200)
    response.set_cookie("one", "1", samesite="Lax")
    response.set_cookie("two", "2", secure=True)
    environ["wsgi.errors"].write("a line that breaks other adapters\n")
    return response(environ, start)


@pytest.fixture
def plain():
    """A sender to the stand-in."""
    return Caller(echo)


def heard(reply):
    """Return what the stand-in heard."""
    return json.loads(reply.get_body())


# --- who is let in ---


def test_without_a_header_the_way_leads_to_the_login_and_back(house, caller):
    """To this page, with its query, and at no request."""
    before = house.requests
    reply = caller.send("/jobs?id=a%20b&month=2026-11")
    assert reply.status_code == 302
    way = urlsplit(reply.headers["Location"])
    assert (way.scheme, way.netloc, way.path) == ("", "", "/.auth/login/aad")
    assert parse_qs(way.query) == {"post_login_redirect_uri": ["/api/console/jobs?id=a%20b&month=2026-11"]}
    assert house.requests == before


@pytest.mark.parametrize("path", ["//evil.test/", "/%2F%2Fevil.test", "/\\evil.test", "/x?post_login_redirect_uri=/y"])
def test_the_way_back_leads_to_this_app(caller, path):
    """Whatever the path says: the login would send the person there."""
    (back,) = parse_qs(urlsplit(caller.send(path).headers["Location"]).query)["post_login_redirect_uri"]
    assert back.startswith("/api/console/")


@pytest.mark.parametrize(("path", "method"), [("/gate/g/open", "POST"), ("/?part=1", "GET")])
def test_an_act_or_a_look_without_a_login_is_refused(caller, path, method):
    """After the login nobody could send it again."""
    reply = caller.send(path, method)
    assert (reply.status_code, b"your login has ended" in reply.get_body()) == (403, True)


def doubled():
    """Return the header that two headers of one name become on the way."""
    return f"{describe('Reader')},{describe('Operator')}"


@pytest.mark.parametrize(
    ("principal", "said"),
    [
        (describe(), "neither the role Reader nor Operator"),
        (describe("reader", "Administrator"), "neither the role"),
        (describe(claims=[("role", "Operator"), ("", "Operator")]), "neither the role"),
        (describe("Operator", auth="github"), "another login"),
        (doubled(), "cannot be read"),
        ("%%%", "cannot be read"),
        ("bm8=", "cannot be read"),
        (describe("Operator")[:-5], "cannot be read"),
        (encode([]), "cannot be read"),
        (encode({"auth_typ": "aad", "claims": "Operator"}), "cannot be read"),
        (encode({"claims": []}), "cannot be read"),
        ("W1tbW1tb" * 4000, "cannot be read"),
        (describe("Operator", ids=()), "no person, or two"),
        (describe("Operator", ids=("1", "2")), "no person, or two"),
        (describe("Operator", claims=[(NAME, "eve")]), "no person, or two"),
    ],
)
def test_whoever_has_no_role_or_cannot_be_read_is_refused(house, caller, principal, said):
    """Nothing of the installation is in the refusal, and it costs no request."""
    before = house.requests
    reply = caller.send("/jobs", principal=principal)
    assert (reply.status_code, said in reply.get_body().decode()) == (403, True)
    assert house.requests == before


def test_the_name_with_underscores_is_not_the_header_that_azure_guards(caller):
    """In WSGI both are one name. Azure's login takes away a sender's own of the first spelling alone."""
    request = func.HttpRequest("GET", BASE, headers={"X_MS_CLIENT_PRINCIPAL": describe("Operator")}, body=b"")
    assert caller.hand_on(request).status_code == 302
    mixed = {"x_ms-client_principal": describe("Operator"), "x-ms-client-principal": describe("Reader")}
    reply = caller.hand_on(func.HttpRequest("GET", BASE, headers=mixed, body=b""))
    assert b"may only read" in reply.get_body()


@pytest.mark.parametrize("claims", [[(ROLE, "Reader")], [("roles", "Reader")], [("roles", "Reader"), ("x", "y")]])
def test_a_role_is_found_under_both_names_of_its_claim(caller, claims):
    """Azure maps some names of claims, and others not."""
    reply = caller.send("/parked", principal=describe(claims=claims))
    assert (reply.status_code, b"dana@example.com (0-1-2)" in reply.get_body()) == (200, True)


def test_a_name_that_is_missing_or_hostile_is_shown_harmless(caller):
    """The object id is always there. A name is cut, and its characters do not turn the line."""
    hostile = caller.send("/parked", principal=describe("Reader", name="\u202e<b>\n" + "x" * 500)).get_body().decode()
    assert "\\x202e&lt;b&gt; " in hostile
    assert "x" * 200 not in hostile
    nameless = encode(
        {"auth_typ": "aad", "claims": [{"typ": OBJECT_ID, "val": "7"}, {"typ": "roles", "val": "Reader"}]}
    )
    assert b"<strong>(7)</strong>" in caller.send("/parked", principal=nameless).get_body()


# --- what a reader may not, and an operator may ---


def test_a_reader_sees_no_form_and_gets_no_cookie(house, caller):
    """There is nothing to sign for somebody who only reads."""
    hold(house.stores, "read-gate", 1)
    reply = caller.send("/gate/read-gate", principal=describe("Reader"))
    assert reply.status_code == 200
    assert b'<form class="act"' not in reply.get_body()
    assert "Set-Cookie" not in reply.headers


def test_a_page_says_that_it_is_an_execution_of_the_function_too(caller):
    """By `sluice web` it is none: there the page costs its requests alone."""
    for path in ("/gates", "/gates?part=1"):
        said = caller.send(path, principal=describe("Reader")).get_body().decode()
        assert re.search(
            r"cost \d+ storage requests?, an execution of the function, [\d.]+ USD without the execution;", said
        )


@pytest.mark.parametrize("route", [one for one in ROUTES if one.method == "POST"], ids=lambda one: one.name)
def test_a_reader_is_refused_every_act(house, caller, route):
    """Before anything is read or written."""
    before, path = house.requests, re.sub("<.*?>", "x", route.path)
    reply = caller.send(path, "POST", describe("Reader"), Origin=f"https://{HOST}", content_type=FORM)
    assert (reply.status_code, b"you may read and not act" in reply.get_body()) == (403, True)
    assert house.requests == before


FORM = "application/x-www-form-urlencoded"


class Session:
    """An operator's browser with its cookie, and the form of a gate in it."""

    def __init__(self, caller, gate, principal):
        self.caller, self.gate, self.principal = caller, gate, principal
        page = caller.send(f"/gate/{gate}", principal=principal)
        self.cookie = page.headers.get("Set-Cookie", "")
        text = page.get_body().decode()
        self.html = next(one for one in re.findall(r"<form class=\"act\".*?</form>", text, re.DOTALL) if "Open " in one)
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.html)
        self.fields = {name: unescape(value) for name, value in hidden} | {"why": "month end"}

    def post(self, **headers):
        """Send the form as a browser does, with some headers changed."""
        sent = {"Origin": f"https://{HOST}", "Sec_Fetch_Site": "same-origin", "Cookie": self.cookie.split(";")[0]}
        body = urlencode(self.fields).encode()
        principal = headers.pop("principal", self.principal)
        path = f"/gate/{self.gate}/open"
        return self.caller.send(path, "POST", principal, body, **(sent | headers | {"content_type": FORM}))


@pytest.fixture
def session(house, caller, request):
    """An operator before the form of a gate that holds two entries."""
    gate = f"fn-{abs(hash(request.node.name))}"
    hold(house.stores, gate, 2)
    return Session(caller, gate, describe("Operator"))


def test_an_operator_opens_a_gate_and_the_audit_names_the_person(house, session):
    """By the name and the object id."""
    reply = session.post()
    assert (reply.status_code, reply.headers["Location"]) == (303, f"/api/console/gate/{session.gate}")
    assert house.stores.gates.read(session.gate).is_open
    (act,) = house.stores.audit.newest(f"{house.clock.now():%Y-%m}", 10, about=session.gate)
    assert (act.act.who, act.act.why) == ("dana@example.com (0-1-2)", "month end")


def test_the_cookie_is_of_this_host_alone_and_set_once(session):
    """Its name makes a browser refuse it of anybody else. Whoever has it gets no other."""
    parts = {part.strip() for part in session.cookie.split(";")[1:]}
    assert session.cookie.startswith("__Host-sluice=")
    assert parts == {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"}
    again = session.caller.send("/parked", principal=session.principal, Cookie=session.cookie.split(";")[0])
    assert "Set-Cookie" not in again.headers


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "https://evil.test"},
        {"Origin": f"http://{HOST}"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Cookie": ""},
        {"Cookie": f"__Host-sluice={'x' * 43}"},
        {"Cookie": "__Host-sluice=short"},
        {"Cookie": "\u20ac\x00; ;=;__Host-sluice"},
        {"principal": describe("Operator", name="eve@example.com")},
        {"principal": describe("Operator", ids=("9",))},
    ],
    ids=str,
)
def test_an_act_of_another_page_session_or_person_is_refused(house, session, changed):
    """The gate stays as it is, and there is no row in the audit."""
    assert session.post(**changed).status_code == 403
    assert not house.stores.gates.read(session.gate).is_open
    assert house.stores.audit.newest(f"{house.clock.now():%Y-%m}", 10, about=session.gate) == []


def test_the_host_in_front_may_end_tls(house, session):
    """The app is asked by http then. The sender's own page is https all the same."""
    session.caller.send = lambda path, *given, _send=session.caller.send, **headers: _send(
        f"http://{HOST}/api/console{path}", *given, X_Forwarded_Proto="https", **headers
    )
    assert session.post().status_code == 303


# --- requests and replies as they are ---


@pytest.mark.parametrize(
    ("path", "heard_path"),
    [
        ("", "/"),
        ("/", "/"),
        ("/job/%C3%A9t%C3%A9%20%E2%82%AC", "/job/été €"),
        ("/job/100%2525", "/job/100%25"),
        ("/job/a%3Fb%23c", "/job/a?b#c"),
        ("/job/%ff", "/job/\ufffd"),
    ],
)
def test_a_path_is_decoded_once(plain, path, heard_path):
    """Names of jobs have any characters; the library's own adapter encodes them twice."""
    found = heard(plain.send(path))
    assert (found["path"], found["root"]) == (heard_path, "/api/console")


def test_a_route_is_found_in_any_case(plain):
    """As the host finds it."""
    assert heard(plain.send(f"https://{HOST}/API/Console/jobs"))["path"] == "/jobs"


def test_a_query_keeps_empty_and_strange_values(plain):
    """The host drops an empty one from its own list."""
    assert heard(plain.send("/jobs?id=&x=%E2%82%AC+1&é=ü"))["args"] == {"id": "", "x": "€ 1", "é": "ü"}


def test_a_form_arrives(plain):
    """With its type and its length."""
    reply = plain.send("/", "POST", body=b"why=%E2%82%AC&seen=", content_type=FORM)
    assert heard(reply)["form"] == {"why": "€", "seen": ""}


def test_two_cookies_stay_two(plain):
    """As the worker hands them to the host."""
    datum = HttpResponseConverter.encode(plain.send("/"), expected_type=None)
    morsels = {name: morsel for cookie in datum.value["cookies"] for name, morsel in cookie.items()}
    assert (morsels["one"]["samesite"], morsels["two"]["secure"]) == ("Lax", True)


def test_a_failure_has_its_body(plain):
    """And the next request is answered too, although something was written to the stream of errors."""
    failed = plain.send("/?fail=1")
    assert (failed.status_code, heard(failed)["args"]) == (503, {"fail": "1"})
    assert plain.send("/").status_code == 200


@pytest.mark.parametrize("value", ["\u20ac", "a\r\nX-Evil: 1", "\x00", "x" * 100_000, '"\\', "\udc80"])
def test_a_hostile_header_is_text(plain, value):
    """Nothing of it becomes another header, and nothing fails."""
    reply = plain.send("/", X_Note=value)
    assert reply.status_code == 200
    assert "X-Evil" not in heard(reply)["headers"]


@pytest.mark.parametrize("name", ["", "x_y", "x y", "é", "wsgi.url_scheme", "x\r\ny"])
def test_a_name_that_is_none_of_a_header_is_dropped(plain, name):
    """It would be another header's in WSGI, or a word of WSGI itself."""
    request = func.HttpRequest("GET", BASE, headers={name: "1", "x-kept": "2"}, body=b"")
    found = heard(Caller(echo).hand_on(request))
    assert (found["headers"]["X-Kept"], "1" in found["headers"].values()) == ("2", False)


def test_a_host_that_is_no_name_is_refused(plain):
    """In a reply, not by a failure of the function."""
    assert plain.send("https://[/api/console/").status_code == 400


def test_the_host_is_the_one_of_the_address(plain):
    """Another header cannot name it: acts compare their origin with it."""
    assert heard(plain.send("/", X_Forwarded_Host="evil.test"))["url"] == f"https://{HOST}/"


def test_a_head_has_no_body_and_an_unchanged_page_neither(caller):
    """What the browser has is still good."""
    reader = describe("Reader")
    head = caller.send("/parked", "HEAD", reader)
    assert (head.status_code, head.get_body()) == (200, b"")
    version = caller.send("/parked?part=1", principal=reader).headers["ETag"]
    again = caller.send("/parked?part=1", principal=reader, If_None_Match=version)
    assert (again.status_code, again.get_body()) == (304, b"")


def test_pages_have_their_links_below_the_function(caller):
    """And the rules of the browser, in each reply."""
    reply = caller.send("/parked", principal=describe("Reader"))
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', reply.get_body().decode())
    assert {one for one in addresses if not one.startswith(("/api/console/", "#"))} == set()
    assert b"sluice web" not in reply.get_body()
    for shown in (reply, caller.send("/parked"), caller.send("/no", principal=describe("Reader"))):
        assert "default-src 'none'" in shown.headers["Content-Security-Policy"]


def test_a_page_that_fails_says_where_its_reason_is(caller, told, monkeypatch):
    """The body of a 500 arrives; the event has the error, and the page has not."""

    def fail(*_):
        raise KeyError("inside")

    monkeypatch.setattr(AzureLogin, "admit", fail)
    reply = caller.send("/")
    assert (reply.status_code, b"sluice.console.failed" in reply.get_body()) == (500, True)
    assert b"inside" not in reply.get_body()
    (line,) = told(events.CONSOLE_FAILED)
    assert line["page"] == "/"


def test_a_reply_that_a_function_cannot_send_names_the_command(monkeypatch):
    """More than 32 MiB, part by part: it is not collected to its end."""
    sent = []

    def large(_environ, start):
        start("200 OK", [("Content-Type", "text/plain")])
        for _ in range(100):
            sent.append(1)
            yield b"x" * 1024 * 1024

    reply = Caller(large).send("/job/a%20b")
    assert (reply.status_code, len(sent)) == (413, 33)
    assert "`sluice web --open &#39;/job/a b&#39;`" in reply.get_body().decode()
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
