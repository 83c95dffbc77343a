"""HTTP functions: what they saw comes back as JSON."""

import asyncio
import json
import logging
import os
import threading
import time

import azure.functions as func

blueprint = func.Blueprint()
_state = {"calls": 0}


def _answer(**fields: object) -> func.HttpResponse:
    return func.HttpResponse(json.dumps(fields), mimetype="application/json")


@blueprint.route("echo/{id:int}/{rest?}", methods=["GET", "POST"])
def echo(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Say what arrived."""
    logging.getLogger("app").info("echo was called")
    return _answer(
        method=req.method,
        url=req.url,
        headers=dict(req.headers),
        params=dict(req.params),
        route=dict(req.route_params),
        body=req.get_body().decode(),
        function=context.function_name,
        invocation=context.invocation_id,
        pid=os.getpid(),
        thread=threading.current_thread().name,
    )


@blueprint.route("async", auth_level=func.AuthLevel.FUNCTION)
async def asynchronous(req: func.HttpRequest) -> func.HttpResponse:
    """Answer from the event loop."""
    started = time.monotonic()
    await asyncio.sleep(float(req.params.get("sleep", "0")))
    return _answer(started=started, pid=os.getpid(), thread=threading.current_thread().name)


@blueprint.route("block")
async def block(req: func.HttpRequest) -> func.HttpResponse:
    """Block the event loop, as no function should."""
    logging.getLogger("app").warning("began to block")
    time.sleep(float(req.params["seconds"]))  # noqa: ASYNC251  # blocking is the point
    return _answer(ended=time.monotonic())


@blueprint.route("sleep")
def sleep(req: func.HttpRequest) -> func.HttpResponse:
    """Hold a thread."""
    logging.getLogger("app").info("began to sleep")
    time.sleep(float(req.params["seconds"]))
    return _answer(pid=os.getpid())


@blueprint.route("fail")
def fail(req: func.HttpRequest) -> func.HttpResponse:
    """Raise."""
    raise RuntimeError("failed on purpose")


@blueprint.route("text")
def text(req: func.HttpRequest) -> str:
    """Answer with plain text."""
    return "plain"


@blueprint.route("nothing")
def nothing(req: func.HttpRequest):
    """Answer with None, which the library refuses."""


@blueprint.route("trace")
def trace(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Say which trace this is."""
    known = context.trace_context
    assert (known.Traceparent, known.Tracestate) == (known.trace_parent, known.trace_state)
    return _answer(parent=known.Traceparent, state=known.Tracestate, attributes=dict(known.Attributes))


@blueprint.route("queue-only", binding_arg_name="response")
@blueprint.queue_output(arg_name="$return", queue_name="only", connection="AzureWebJobsStorage")
def queue_only(req: func.HttpRequest, response: func.Out[str]) -> str:
    """Leave the response unset and send a message."""
    return "sent"


@blueprint.route("spelled-cookies")
def spelled_cookies(req: func.HttpRequest) -> func.HttpResponse:
    """Answer with cookies as the caller writes them."""
    response = func.HttpResponse()
    for cookie in json.loads(req.get_body()):
        response.headers.add("Set-Cookie", cookie)
    return response


@blueprint.route("cookies", auth_level=func.AuthLevel.ADMIN)
def cookies(req: func.HttpRequest) -> func.HttpResponse:
    """Answer with a status, a header and two cookies."""
    response = func.HttpResponse(b"\x00\x01", status_code=201, headers={"X-Mine": "1", "Set-Cookie": "a=1; Path=/"})
    response.headers.add("Set-Cookie", "b=2")
    return response


@blueprint.route("calls")
def calls(req: func.HttpRequest) -> func.HttpResponse:
    """Count in memory: another process has its own count."""
    _state["calls"] += 1
    return _answer(pid=os.getpid(), calls=_state["calls"])
