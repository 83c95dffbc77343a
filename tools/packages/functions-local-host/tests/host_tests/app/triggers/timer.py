"""Timers leave one blob per run."""

import contextlib
import json
import os
import time
from datetime import UTC, datetime
from uuid import uuid4

import azure.functions as func
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import ContainerClient

#: Azure fixes this spelling.
HOST_STORAGE = "AzureWebJobsStorage"

blueprint = func.Blueprint()


def _record(name: str, **fields: object) -> None:
    with ContainerClient.from_connection_string(os.environ[HOST_STORAGE], "ticks") as container:
        with contextlib.suppress(ResourceExistsError):
            container.create_container()
        run = {"pid": os.getpid(), "at": datetime.now(UTC).isoformat(), **fields}
        container.upload_blob(f"{name}/{uuid4()}", json.dumps(run))


@blueprint.timer_trigger("clock", schedule="* * * * * *")
def every_second(clock: func.TimerRequest) -> None:
    """Run often, in one instance of many."""
    _record("every_second", status=dict(clock.schedule_status))


@blueprint.timer_trigger("clock", schedule="%HOURLY%")
def hourly(clock: func.TimerRequest) -> None:
    """Run when due, or by hand."""
    _record("hourly", past_due=clock.past_due, status=dict(clock.schedule_status))


@blueprint.timer_trigger("clock", schedule="0 0 0 1 1 *", run_on_startup=True)
def on_startup(clock: func.TimerRequest) -> None:
    """Run at each start of the listener."""
    _record("on_startup", past_due=clock.past_due)


@blueprint.timer_trigger("clock", schedule="* * * * * *")
def slow_tick(clock: func.TimerRequest) -> None:
    """Take longer than the interval; never beside itself."""
    started = time.time()
    time.sleep(1.5)
    _record("slow_tick", started=started, ended=time.time())
