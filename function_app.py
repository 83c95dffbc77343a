"""The table of contents of the app: its settings, and every function it registers. The only reader of the environment."""

import os

import azure.functions as func

from functions import (
    accept_submission,
    drain_work,
    health,
    park_dead,
    process_chunk,
    release_gate,
    settle_results,
    tick,
)
from shared.connections import Connections
from shared.settings import Dequeue, Settings
from shared.telemetry.choice import telemetry
from shared.telemetry.libraries import quiet_libraries
from shared.usage.keeping import keep
from shared.wiring import diary, gatehouse, line, push, works
from shared.workloads.registry import Workloads

quiet_libraries()
# Wrong settings fail the indexing: nothing listens, and messages wait instead of being tried to death.
settings = Settings.parse(os.environ)
connections = Connections.parse(os.environ, telemetry=telemetry(settings.telemetry))
gates = gatehouse(connections)
work = works(
    connections,
    Workloads.load(settings.workloads, os.environ),
    work_queues=settings.work_queues,
    merged_most=settings.merged_most,
    poison=settings.poison,
)
woken = push(connections, settings, work) if settings.dequeue is Dequeue.PUSH else None
stages = line(connections, settings, gates, work, woken)

# A thread of its own notes this process's requests for the whole installation.
keep(diary(connections))

app = func.FunctionApp()
app.register_functions(health.blueprint(settings))
app.register_functions(release_gate.blueprint(stages))
app.register_functions(tick.blueprint(stages))
app.register_functions(accept_submission.blueprint(settings, stages))
# One or the other takes work off the work queues, never both.
app.register_functions(drain_work.blueprint(woken.drain) if woken else process_chunk.blueprint(settings, work))
app.register_functions(settle_results.blueprint(stages))
app.register_functions(park_dead.blueprint(work))
