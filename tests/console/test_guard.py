"""Who is let in, what is refused, and what every reply forbids the browser."""

import re
from urllib.parse import urlsplit

import pytest
from werkzeug.test import Client

from tests.console.conftest import HOST


def test_an_address_is_good_once(house):
    """The browser that opened it has the cookie; whoever reads the address later has nothing."""
    path = urlsplit(house.login.issue("/gates")).path
    first, second = Client(house.application), Client(house.application)
    entered = first.get(path, headers={"Host": HOST})
    assert entered.status_code == 303
    assert first.get(entered.headers["Location"], headers={"Host": HOST}).status_code == 200
    assert second.get(path, headers={"Host": HOST}).status_code == 403
    assert second.get(entered.headers["Location"], headers={"Host": HOST}).status_code == 403


def test_an_address_is_good_for_a_minute(house):
    """One that lies in a terminal is void."""
    path = urlsplit(house.login.issue()).path
    house.clock.advance(61)
    reply = Client(house.application).get(path, headers={"Host": HOST})
    assert (reply.status_code, "press Enter" in reply.text) == (403, True)


def test_a_new_address_voids_the_one_before(house):
    """Only the last line of the terminal counts."""
    before = urlsplit(house.login.issue()).path
    house.login.issue()
    assert Client(house.application).get(before, headers={"Host": HOST}).status_code == 403


def test_the_cookie_is_for_the_random_folder_alone(house):
    """Cookies know no ports: with the path `/`, each other server of this machine would get it."""
    entered = Client(house.application).get(urlsplit(house.login.issue()).path, headers={"Host": HOST})
    (cookie,) = entered.headers.get_all("Set-Cookie")
    folder = entered.headers["Location"]
    assert re.fullmatch(r"/[0-9a-f]{24}/", folder)
    assert {part.strip() for part in cookie.split(";")[1:]} == {"HttpOnly", "SameSite=Strict", f"Path={folder}"}


def test_the_page_of_the_address_is_below_the_folder(house):
    """A person who opens a colleague's page stays on this server."""
    for page in ("/job/x", "//evil.test/", "job/x"):
        entered = Client(house.application).get(urlsplit(house.login.issue(page)).path, headers={"Host": HOST})
        assert re.match(r"/[0-9a-f]{24}/", entered.headers["Location"])


@pytest.mark.parametrize(
    "host", ["localhost:8765", "127.0.0.1", "127.0.0.1:8766", "rebind.test:8765", "127.0.0.1:8765."]
)
def test_another_name_of_this_server_is_refused(house, visitor, host):
    """A foreign page whose name leads here has another Host."""
    assert visitor.get("/", Host=host).status_code == 421
    entered = Client(house.application).get(urlsplit(house.login.issue()).path, headers={"Host": host})
    assert entered.status_code == 421


def test_nobody_is_let_in_without_the_cookie_or_below_another_folder(house, visitor):
    """The refusal shows nothing of the installation, and costs no request."""
    before = house.requests
    stranger = Client(house.application)
    for path in ("/", "/jobs", "/static/x/console.css", f"{visitor.folder}/", f"{visitor.folder}/jobs"):
        reply = stranger.get(path, headers={"Host": HOST})
        assert (reply.status_code, "dana" in reply.text) == (403, False)
    visitor.client.set_cookie("sluice", "wrong", domain="127.0.0.1", path=f"{visitor.folder}/")
    assert visitor.get("/").status_code == 403
    assert house.requests == before


def test_every_reply_has_the_headers(house, visitor):
    """Pages, files, refusals and what is not there."""
    style = re.search(r'href="[^"]*(/static/\w+/console\.css)"', visitor.get("/parked").text)[1]
    replies = [visitor.get(path) for path in ("/parked", "/nothing", style)]
    replies.append(Client(house.application).get("/", headers={"Host": HOST}))
    replies.append(Client(house.application).get("/", headers={"Host": "evil.test"}))
    for reply in replies:
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert reply.headers["Referrer-Policy"] == "same-origin"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert replies[0].headers["Cache-Control"] == "no-store"


def test_a_file_is_kept_for_good_under_the_address_of_its_version(visitor):
    """A page after an upgrade names another address."""
    page = visitor.get("/parked").text
    for name in ("console.css", "console.js", "sluice.svg"):
        address = re.search(rf'"[^"]*(/static/\w{{8}}/{re.escape(name)})"', page)[1]
        reply = visitor.get(address)
        assert (reply.status_code, "immutable" in reply.headers["Cache-Control"]) == (200, True)
        assert visitor.get(f"/static/00000000/{name}").status_code == 404
    assert visitor.get("/static/00000000/vendored.json").status_code == 404


def test_no_page_has_a_script_or_a_style_of_its_own(visitor):
    """The policy would refuse it, and the page would be broken."""
    for path in ("/", "/jobs", "/gates", "/parked"):
        text = visitor.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_page_is_only_read(house, visitor, method):
    """Nothing but the named acts takes a body."""
    before = house.requests
    reply = visitor.client.open(f"{visitor.folder}/jobs", method=method, headers={"Host": HOST})
    assert (reply.status_code, house.requests) == (405, before)
    assert "GET" in reply.headers["Allow"]


def test_storage_that_is_down_is_one_sentence(house, visitor, monkeypatch):
    """The page says the attempt; there is no stack in it."""

    def refuse(*_):
        raise OSError("no route")

    monkeypatch.setattr(house.stores.watch, "read", refuse)
    reply = visitor.get("/")
    assert reply.status_code == 500
    assert "no route" not in reply.text
    assert "Traceback" not in reply.text
