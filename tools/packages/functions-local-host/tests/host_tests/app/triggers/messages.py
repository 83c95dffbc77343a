"""Queue and Service Bus functions leave one blob per run. Without their queue's setting they are in error and rest."""

import contextlib
import json
import os
import time
from typing import List
from uuid import uuid4

import azure.functions as func
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import ContainerClient

#: Azure fixes this spelling.
HOST_STORAGE = "AzureWebJobsStorage"

blueprint = func.Blueprint()


def _record(name: str, **fields: object) -> None:
    with ContainerClient.from_connection_string(os.environ[HOST_STORAGE], "runs") as container:
        with contextlib.suppress(ResourceExistsError):
            container.create_container()
        run = {"pid": os.getpid(), "at": time.time(), **fields}
        container.upload_blob(f"{name}/{uuid4()}", json.dumps(run))


@blueprint.queue_trigger("msg", queue_name="%WORK_QUEUE%", connection="")
def on_work(msg: func.QueueMessage) -> None:
    """Run; a body may ask to be held on its first delivery, or to fail."""
    body = msg.get_body().decode()
    lease = (msg.time_next_visible - msg.insertion_time).total_seconds()
    _record(os.environ["WORK_QUEUE"], id=msg.id, body=body, count=msg.dequeue_count, lease=lease)
    if body.startswith("hold") and msg.dequeue_count == 1:
        time.sleep(60)
    if body.startswith("fail"):
        raise RuntimeError("failed on purpose")


@blueprint.queue_trigger("msg", queue_name="%COPY_IN%", connection="")
@blueprint.queue_output("copies", queue_name="%WORK_QUEUE%", connection="")
def on_copy(msg: func.QueueMessage, copies: func.Out[List[str]]) -> None:
    """Write each word of the body as a message of its own."""
    copies.set(msg.get_body().decode().split())


@blueprint.queue_trigger("msg", queue_name="%PUBLISH_IN%", connection="")
@blueprint.service_bus_topic_output("event", topic_name="%BUS_TOPIC%", connection="Bus")
def on_publish(msg: func.QueueMessage, event: func.Out[str]) -> None:
    """Pass the body to a topic."""
    event.set(msg.get_body().decode())


@blueprint.service_bus_queue_trigger("msg", queue_name="%BUS_QUEUE%", connection="Bus")
def on_event(msg: func.ServiceBusMessage) -> None:
    """Run for one message of a bus queue."""
    _record(os.environ["BUS_QUEUE"], body=msg.get_body().decode(), id=msg.message_id, count=msg.delivery_count)


@blueprint.service_bus_queue_trigger("msg", queue_name="%BUS_SESSIONS%", connection="Bus", is_sessions_enabled=True)
def on_session(msg: func.ServiceBusMessage) -> None:
    """Run for one message of a session."""
    _record(os.environ["BUS_SESSIONS"], body=msg.get_body().decode(), session=msg.session_id)


@blueprint.service_bus_topic_trigger(
    "messages",
    topic_name="%BUS_TOPIC%",
    subscription_name="all",
    connection="Bus",
    cardinality=func.Cardinality.MANY,
    data_type=func.DataType.STRING,
)
def on_batch(messages: List[func.ServiceBusMessage]) -> None:
    """Run for a batch of a subscription."""
    _record(os.environ["BUS_TOPIC"], bodies=[message.get_body().decode() for message in messages])
