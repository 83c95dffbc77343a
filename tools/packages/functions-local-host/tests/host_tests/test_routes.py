"""Route templates and HTTP values, without a server."""

import json
import stat

import azure.functions as func
import pytest
from azure.functions.meta import get_binding_registry
from functions_local_host.http_datums import Incoming, request_datum, response
from functions_local_host.keys import Keys, KeysError, load_keys
from functions_local_host.plan import HTTP, HostArguments, InstanceArguments, group_of, groups
from functions_local_host.routes import Entry, Route, RouteError, find


@pytest.mark.parametrize(
    ("template", "path", "expected"),
    [
        ("api/items", "/api/items", {}),
        ("api/items", "/API/Items/", {}),
        ("api/items", "/api/items/1", None),
        ("api/{id}", "/api/a%20b", {"id": "a b"}),
        ("api/{id:int}", "/api/12", {"id": "12"}),
        ("api/{id:int}", "/api/x", None),
        ("api/{id:int}", "/api/99999999999", None),
        ("api/{id:long}", "/api/99999999999", {"id": "99999999999"}),
        ("api/{id:guid}", "/api/6f9619ff-8b86-d011-b42d-00cf4fc964ff", {"id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}),
        ("api/{flag:bool}", "/api/TRUE", {"flag": "TRUE"}),
        ("api/{word:alpha}", "/api/abc1", None),
        ("api/{id?}", "/api", {}),
        ("api/{id:int?}", "/api/x", None),
        ("api/{*rest}", "/api/a/b/c", {"rest": "a/b/c"}),
        ("api/{*rest}", "/api", {}),
    ],
)
def test_a_template_matches_what_it_should(template, path, expected):
    """Literals without case, constraints, optional and rest segments, decoded values."""
    assert Route.parse(template).match(path) == expected


@pytest.mark.parametrize("template", ["a/{x:regex}", "a/{x=5}", "a/x{y}z", "{*rest}/a", "{a?}/b", "a/{"])
def test_a_template_beyond_this_host_is_refused(template):
    """Nothing is matched by guess."""
    with pytest.raises(RouteError, match="route"):
        Route.parse(template)


def test_the_more_specific_route_wins_and_methods_are_part_of_the_match():
    """Literal before constraint before parameter before rest; a path under another method is not found."""
    templates = ["a/{*rest}", "a/{x}", "a/{x:int}", "a/b"]
    entries = [Entry(Route.parse(template), frozenset({"GET"}), template) for template in templates]
    hits = [find(entries, "GET", path) for path in ("/a/b", "/a/1", "/a/c", "/a/c/d")]
    assert [hit[0] for hit in hits if hit] == ["a/b", "a/{x:int}", "a/{x}", "a/{*rest}"]
    assert find(entries, "POST", "/a/b") is None


def decoded(**changes):
    """Return the request as a function sees it."""
    plain = {"method": "POST", "url": "http://localhost/api/x?a=1", "body": b"{}"}
    datum = request_datum(Incoming(**plain | changes), {"id": "7"})
    return get_binding_registry().get("httpTrigger").decode(datum, trigger_metadata={})


def test_header_names_are_lower_case_and_several_values_are_joined():
    """As the real host sends them."""
    request = decoded(headers=(("X-One", "a"), ("x-one", "b"), ("Content-Length", "2")))
    assert dict(request.headers) == {"x-one": "a,b", "content-length": "2"}


def test_query_parameters_without_a_value_are_dropped():
    """?a=&b=1&b=2 leaves b with both."""
    assert dict(decoded(query=(("a", ""), ("b", "1"), ("b", "2"))).params) == {"b": "1,2"}


def test_a_body_without_a_length_arrives_empty():
    """A chunked request loses its body, as in Azure; with a length it is there, as bytes."""
    assert decoded(headers=(("Transfer-Encoding", "chunked"),)).get_body() == b""
    with_length = decoded(headers=(("Content-Length", "2"),))
    assert with_length.get_body() == b"{}"
    assert with_length.get_json() == {}
    assert with_length.route_params == {"id": "7"}


def test_a_response_keeps_status_headers_and_every_cookie():
    """Two cookies are two headers."""
    answer = func.HttpResponse(b"\x00", status_code=201, headers={"X-Mine": "1", "Set-Cookie": "a=1"})
    answer.headers.add("Set-Cookie", "b=2")
    sent = response(get_binding_registry().get("http").encode(answer, expected_type=None))
    assert (sent.status, sent.body, sent.headers["X-Mine"]) == (201, b"\x00", "1")
    assert sent.headers.getall("Set-Cookie") == ["a=1", "b=2"]


def test_keys_are_made_once_and_only_their_owner_reads_them(tmp_path):
    """The second start finds the keys of the first; a new function gets one of its own."""
    path = tmp_path / "keys.json"
    keys = load_keys(path, ["a"])
    again = load_keys(path, ["a", "b"])
    assert (again.master, again.host, again.functions["a"]) == (keys.master, keys.host, keys.functions["a"])
    assert set(again.functions) == {"a", "b"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["master"] == keys.master


def test_a_key_file_that_is_none_is_refused(tmp_path):
    """It is not overwritten in silence."""
    (tmp_path / "keys.json").write_text("[]")
    with pytest.raises(KeysError, match="delete it"):
        load_keys(tmp_path / "keys.json", [])


@pytest.mark.parametrize(
    ("level", "opened_by"),
    [
        ("anonymous", {"master", "host", "own", "other", ""}),
        ("function", {"master", "host", "own"}),
        ("admin", {"master"}),
    ],
)
def test_each_level_opens_to_its_keys_only(level, opened_by):
    """Another function's key opens nothing."""
    keys = Keys("master", "host", {"f": "own", "g": "other"})
    assert {key for key in ("master", "host", "own", "other", "") if keys.allows(level, "f", key)} == opened_by


def test_on_flex_every_function_but_http_ones_is_its_own_group():
    """Without Flex all are one."""
    triggers = [("web", "httpTrigger"), ("tick", "timerTrigger"), ("work", "queueTrigger")]
    assert groups(triggers, is_flex=True) == [HTTP, "function:tick", "function:work"]
    assert groups(triggers, is_flex=False) == [HTTP]
    assert group_of("web", "httpTrigger", is_flex=True) == HTTP


def test_an_instance_is_told_everything_on_its_command_line():
    """What the supervisor says is what the instance reads."""
    told = InstanceArguments(
        "http-0", HTTP, 5, HostArguments(app="/a", run_folder="/r", timer_lease=15.0, is_flex=True)
    )
    assert InstanceArguments.from_json(told.to_json()) == told
