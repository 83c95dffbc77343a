"""What Microsoft's end-to-end apps for the v2 model do with HTTP, queues, Service Bus and timers, written anew.

Theirs leave what a trigger saw in a blob. This host has no blob bindings, so these leave it in a queue.
"""

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import List

import azure.functions as func

STORAGE = "AzureWebJobsStorage"
FIELDS = [
    "message_id",
    "content_type",
    "delivery_count",
    "expiration_time",
    "label",
    "partition_key",
    "reply_to",
    "reply_to_session_id",
    "scheduled_enqueue_time",
    "session_id",
    "time_to_live",
    "to",
    "user_properties",
    "application_properties",
    "correlation_id",
    "dead_letter_error_description",
    "dead_letter_reason",
    "dead_letter_source",
    "enqueued_sequence_number",
    "enqueued_time_utc",
    "expires_at_utc",
    "locked_until",
    "lock_token",
    "sequence_number",
    "state",
    "subject",
    "transaction_partition_key",
]

_log = logging.getLogger("app")
app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route("template")
def template(req: func.HttpRequest) -> func.HttpResponse:
    """Greet by a name of the query or of a JSON body."""
    name = req.params.get("name")
    if not name:
        try:
            name = req.get_json().get("name")
        except ValueError:
            name = None
    return func.HttpResponse(f"Hello, {name}." if name else "Nobody was named.", status_code=200)


@app.route("threads")
def threads(req: func.HttpRequest) -> str:
    """Log from threads that user code starts, before and after them."""
    _log.info("before threads")
    started = [Thread(target=_log.info, args=("in thread %d", n)) for n in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    _log.info("after threads")
    return "done"


@app.route("threads-async")
async def threads_async(req: func.HttpRequest) -> str:
    """Log from an executor of user code, while the loop goes on."""
    with ThreadPoolExecutor() as pool:
        await asyncio.get_running_loop().run_in_executor(pool, _log.info, "in an executor")
    return "done"


@app.function_name("put")
@app.route("put")
@app.queue_output(arg_name="msg", connection=STORAGE, queue_name="%CASES%-plain")
def put(req: func.HttpRequest, msg: func.Out[str]) -> str:
    """Set text, given as bytes."""
    msg.set(req.get_body())  # type: ignore[arg-type]  # as Microsoft's does
    return "OK"


@app.route("put-object", binding_arg_name="resp")
@app.queue_output(arg_name="$return", connection=STORAGE, queue_name="%CASES%-object")
def put_object(req: func.HttpRequest, resp: func.Out[str]) -> bytes:
    """Return a message object where bytes are annotated, and leave the response unset."""
    return func.QueueMessage(body=req.get_body())  # type: ignore[return-value]


@app.route("put-both", binding_arg_name="resp")
@app.queue_output(arg_name="msg", connection=STORAGE, queue_name="%CASES%-both")
def put_both(req: func.HttpRequest, resp: func.Out[func.HttpResponse], msg: func.Out[func.QueueMessage]) -> None:
    """Set a response and a message, both as outputs."""
    data = req.get_body().decode()
    msg.set(func.QueueMessage(body=data))
    resp.set(func.HttpResponse(body=f"HTTP response: {data}"))


@app.route("put-return", binding_arg_name="resp")
@app.queue_output(arg_name="$return", connection=STORAGE, queue_name="%CASES%-returned")
def put_return(req: func.HttpRequest, resp: func.Out[str]) -> bytes:
    """Return bytes."""
    return req.get_body()


@app.route("put-list", binding_arg_name="resp")
@app.queue_output(arg_name="msgs", connection=STORAGE, queue_name="%CASES%-list")
def put_list(req: func.HttpRequest, resp: func.Out[str], msgs: func.Out[List[str]]) -> None:
    """Set two messages at once."""
    msgs.set(["one", "two"])


@app.queue_trigger(arg_name="msg", queue_name="%CASES%-plain", connection=STORAGE)
@app.queue_output(arg_name="$return", connection=STORAGE, queue_name="%CASES%-seen-plain")
def on_plain(msg: func.QueueMessage) -> str:
    """Say everything of a message."""
    times = {name: getattr(msg, name) for name in ("expiration_time", "insertion_time", "time_next_visible")}
    return json.dumps(
        {
            "id": msg.id,
            "body": msg.get_body().decode(),
            "pop_receipt": msg.pop_receipt,
            "dequeue_count": msg.dequeue_count,
            **{name: value.isoformat() if value else None for name, value in times.items()},
        }
    )


@app.queue_trigger(arg_name="msg", queue_name="%CASES%-object", connection=STORAGE)
@app.queue_output(arg_name="$return", connection=STORAGE, queue_name="%CASES%-seen-object")
def on_object(msg: func.QueueMessage) -> bytes:
    """Return the body as bytes."""
    return msg.get_body()


@app.queue_trigger(arg_name="msg", queue_name="%CASES%-returned", connection=STORAGE)
@app.queue_output(arg_name="$return", connection=STORAGE, queue_name="%CASES%-seen-returned")
def on_returned(msg: str) -> str:
    """Take the body as text, without a message around it."""
    return msg


@app.queue_trigger(arg_name="msg", queue_name="%CASES%-list", connection=STORAGE)
def on_list(msg: func.QueueMessage) -> None:
    """Log the body."""
    _log.info("trigger on message: %s", msg.get_body().decode())


@app.route("put-event")
@app.service_bus_queue_output(arg_name="msg", connection="Bus", queue_name="%CASES_BUS%")
def put_event(req: func.HttpRequest, msg: func.Out[str]) -> str:
    """Set the text of a bus message."""
    msg.set(req.get_body().decode())
    return "OK"


@app.service_bus_queue_trigger(arg_name="msg", connection="Bus", queue_name="%CASES_BUS%")
@app.queue_output(arg_name="$return", connection=STORAGE, queue_name="%CASES%-seen-event")
def on_event(msg: func.ServiceBusMessage) -> str:
    """Say everything of a bus message."""
    seen = {name: getattr(msg, name) for name in FIELDS}
    return json.dumps({"body": msg.get_body().decode(), **seen}, default=str)


@app.schedule(schedule="*/1 * * * * *", arg_name="clock", run_on_startup=False, use_monitor=False)
def on_clock(clock: func.TimerRequest) -> None:
    """Log each second."""
    _log.info("the timer ran")
