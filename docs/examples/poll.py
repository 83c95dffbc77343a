"""An example for docs/dequeue.md: a program of your own polls the work queues."""

import threading
from collections.abc import Mapping

from shared.app import App
from shared.azure import Connections
from shared.dequeue import BackOff, Listening, QueueListener, Telling, pull
from shared.settings import Settings
from shared.workloads import Workloads


def work_until(stop: threading.Event, environ: Mapping[str, str]) -> None:
    """Work off the queues until `stop` is set."""
    settings = Settings.parse(environ)
    with Connections.parse(environ) as connections:
        app = App(connections, settings, Workloads.load(settings.workloads, environ))
        queues, following = app.stores.work_queues(settings.work_queues), app.following
        listening = Listening(
            rule=following.rule,
            cap=following.cap,
            processes=1,
            on_queue_empty=pull(BackOff()),
            on_work_detected=following.notice_work,
        )
        with QueueListener(queues, app.process, listening, urgent=app.urgent) as listener:
            listener.subscribe(Telling())
            listener.start(1)
            stop.wait()
