"""The table of contents of the app: its settings, and every function it registers. The only reader of the environment."""

import os

import azure.functions as func

from functions import (
    accept_hinted,
    accept_submission,
    drain_work,
    health,
    park_dead,
    process_chunk,
    release_gate,
    settle_results,
    tick,
)
from shared.app import App
from shared.azure import Connections
from shared.settings import Settings
from shared.telemetry import quiet_libraries, telemetry
from shared.usage import keep
from shared.workloads import Workloads

quiet_libraries()
# Wrong settings fail the indexing: nothing listens, and messages wait instead of being tried to death.
settings = Settings.parse(os.environ)
connections = Connections.parse(os.environ, telemetry=telemetry(settings.telemetry))
sluice = App(connections, settings, Workloads.load(settings.workloads, os.environ))
keep(sluice.stores.diary)

app = func.FunctionApp()
app.register_functions(health.blueprint(sluice))
app.register_functions(release_gate.blueprint(sluice))
app.register_functions(tick.blueprint(sluice))
app.register_functions(accept_submission.blueprint(sluice))
app.register_functions(accept_hinted.blueprint(sluice))
app.register_functions(drain_work.blueprint(sluice))
app.register_functions(process_chunk.blueprint(sluice))
app.register_functions(settle_results.blueprint(sluice))
app.register_functions(park_dead.blueprint(sluice))
