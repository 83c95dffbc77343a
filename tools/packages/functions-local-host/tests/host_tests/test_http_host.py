"""HTTP functions and administrative requests through a running host."""

import http.client
import json
import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.storage.queue import QueueClient
from host_tests.client import eventually, get, get_json, runs


@pytest.mark.parametrize("instances", [1, 3])
def test_http_functions_work_with_one_and_with_three_instances(start_host, instances):
    """Routes, methods, sync and async functions, and every instance takes its share of one socket."""
    host = start_host(instances=instances)
    echo = get_json(host, "/api/echo/5/rest?a=1&b=", method="POST", body=b"hello", headers={"X-Mine": "yes"})
    assert (echo["method"], echo["body"], echo["params"], echo["route"]) == (
        "POST",
        "hello",
        {"a": "1"},
        {"id": "5", "rest": "rest"},
    )
    assert echo["headers"]["x-mine"] == "yes"
    assert echo["url"] == f"{host.base_url}/api/echo/5/rest?a=1&b="
    assert echo["thread"].startswith("function")
    assert get_json(host, "/api/async")["thread"] == "worker"
    assert get(host, "/api/echo/five")[0] == 404
    assert get(host, "/api/echo/5", method="DELETE")[0] == 404
    assert get(host, "/api/text") == (200, b"plain")
    assert get(host, "/api/fail")[0] == 500
    assert get(host, "/api/nothing")[0] == 500
    assert [get(host, "/admin/host/ping", method=method)[0] for method in ("GET", "POST")] == [200, 200]
    status = host.status()
    assert (status["state"], len(status["instances"])) == ("Running", instances)
    assert {said["longestPoll"] for said in status["instances"].values()} == {0.5}
    with ThreadPoolExecutor(16) as pool:
        slow = ["/api/async?sleep=0.1"] * 16
        pids = eventually(lambda: found if len(found := _pids(pool, host, slow)) == instances else None)
    assert pids == set(host.instance_pids().values())


def _pids(pool, host, paths):
    return {answer["pid"] for answer in pool.map(lambda path: get_json(host, path), paths)}


def test_cookies_and_binary_bodies_reach_the_caller(start_host):
    """Two Set-Cookie headers, status and bytes as the function set them."""
    host = start_host()
    connection = http.client.HTTPConnection("127.0.0.1", host.port)
    connection.request("GET", "/api/cookies")
    answer = connection.getresponse()
    assert (answer.status, answer.read(), answer.headers["X-Mine"]) == (201, b"\x00\x01", "1")
    assert [cookie.split("=")[0] for cookie in answer.headers.get_all("Set-Cookie")] == ["a", "b"]
    connection.close()


def test_cookies_are_written_as_the_host_writes_them(start_host):
    """Attributes small and in the host's order, the value escaped, old dates in the new form."""
    written = {
        "a=1": "a=1",
        'b="x y/z"; Path=/': "b=x%20y%2Fz; path=/",
        "d=4; Expires=Thu, 12 Jan 2017 13:55:08 GMT": "d=4; expires=Thu, 12 Jan 2017 13:55:08 GMT",
        "c=2; HttpOnly; Secure; SameSite=Lax; Path=/; Domain=d.example; Max-Age=60; Expires=Thu, 12-Jan-2017 13:55:08 GMT": (
            "c=2; expires=Thu, 12 Jan 2017 13:55:08 GMT; max-age=60; domain=d.example; path=/; "
            "secure; samesite=lax; httponly"
        ),
    }
    connection = http.client.HTTPConnection("127.0.0.1", start_host().port)
    connection.request("POST", "/api/spelled-cookies", body=json.dumps(list(written)))
    answer = connection.getresponse()
    assert (answer.status, answer.headers.get_all("Set-Cookie")) == (200, list(written.values()))
    connection.close()


def test_a_trace_goes_on_where_the_caller_has_one_and_begins_anew_otherwise(start_host):
    """Each run is a span of its own."""
    host = start_host()
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace}-{parent}-01", "tracestate": "a=1"}
    found = get_json(host, "/api/trace", headers=headers)
    assert re.fullmatch(rf"00-{trace}-[0-9a-f]{{16}}-01", found["parent"])
    assert (parent in found["parent"], found["state"], found["attributes"]) == (False, "a=1", {})
    unknown = [{}, {"traceparent": "nonsense"}, {"traceparent": f"00-{'0' * 32}-{parent}-01", "tracestate": "a=1"}]
    others = [get_json(host, "/api/trace", headers=one) for one in unknown]
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", one["parent"]) for one in others)
    assert {one["state"] for one in others} == {""}
    assert len({one["parent"] for one in others}) == len(unknown)


def test_an_http_out_that_stays_unset_is_an_empty_success(start_host, azurite):
    """The message that the function returned is sent all the same."""
    assert get(start_host(), "/api/queue-only", method="POST", body=b"") == (200, b"")
    with QueueClient.from_connection_string(azurite.connection_string, "only") as queue:
        assert queue.receive_message()["content"] in {"sent", b64encode(b"sent").decode()}


def test_a_chunked_body_arrives_empty(start_host):
    """The real host forwards only bodies with a length."""
    host = start_host()
    connection = http.client.HTTPConnection("127.0.0.1", host.port)
    connection.request("POST", "/api/echo/1", body=iter([b"chunk"]), encode_chunked=True)
    assert json.loads(connection.getresponse().read())["body"] == ""
    connection.close()


def test_without_auth_nobody_asks_for_keys_and_with_auth_every_level_is_kept(start_host, tmp_path):
    """Locally func asks for no key; --auth does, by level."""
    open_host = start_host()
    assert get(open_host, "/api/cookies")[0] == 201
    path = tmp_path / "keys.json"
    host = start_host(options=["--auth", "--keys", str(path)])
    keys = json.loads(path.read_text())
    assert get(host, "/api/text")[0] == 200
    assert get(host, "/api/async")[0] == 401
    assert get(host, "/api/async", headers={"x-functions-key": keys["functions"]["text"]})[0] == 401
    assert get(host, f"/api/async?code={keys['functions']['asynchronous']}")[0] == 200
    assert get(host, "/api/async", headers={"x-functions-key": keys["host"]})[0] == 200
    assert get(host, "/api/cookies", headers={"x-functions-key": keys["host"]})[0] == 401
    assert get(host, "/api/cookies", headers={"x-functions-key": keys["master"]})[0] == 201
    assert get(host, "/admin/functions")[0] == 401
    assert get(host, "/admin/functions", headers={"x-functions-key": keys["master"]})[0] == 200


def test_a_function_without_http_trigger_runs_by_hand(start_host, azurite, settings):
    """202 at once, the run follows, even of a disabled function; unknown names and HTTP functions are refused."""
    host = start_host()
    before = len(runs(azurite, "hourly"))
    assert get(host, "/admin/functions/hourly", method="POST", body=b'{"input": ""}')[0] == 202
    eventually(lambda: len(runs(azurite, "hourly")) == before + 1)
    assert get(host, "/admin/functions/nowhere", method="POST", body=b"{}")[0] == 404
    assert get(host, "/admin/functions/echo", method="POST", body=b"{}")[0] == 400
    assert get(host, "/admin/functions/hourly", method="POST", body=b"{")[0] == 400


def test_the_list_of_functions_says_what_is_disabled(start_host):
    """Name, trigger, state."""
    functions = {entry["name"]: entry for entry in get_json(start_host(), "/admin/functions")}
    assert functions["hourly"]["isDisabled"]
    assert functions["hourly"]["trigger"]["schedule"] == "0 0 * * * *"
    assert not functions["echo"]["isDisabled"]


def test_blocking_an_event_loop_stalls_async_functions_but_not_the_host(start_host):
    """Azure's trap is kept: one blocking `async def` holds up the others, while the host itself answers."""
    host = start_host()
    with ThreadPoolExecutor(2) as pool:
        blocking = pool.submit(get_json, host, "/api/block?seconds=2")
        eventually(lambda: "began to block" in host.log.read_text())
        stalled = pool.submit(get_json, host, "/api/async")
        assert get(host, "/admin/functions")[0] == 200
        assert not blocking.done()
        assert stalled.result()["started"] >= blocking.result()["ended"]


def test_user_log_lines_name_function_and_invocation(start_host):
    """Each line of user code says which run wrote it."""
    host = start_host()
    echo = get_json(host, "/api/echo/1")
    assert f"[echo {echo['invocation']}] echo was called" in host.log.read_text()


def test_the_traceback_of_a_failure_begins_with_user_code(start_host):
    """The host's own frames would only hide it."""
    host = start_host()
    get(host, "/api/fail")
    text = host.log.read_text()
    assert "fail failed (id=" in text
    assert "RuntimeError: failed on purpose" in text
    assert "worker.py" not in text
