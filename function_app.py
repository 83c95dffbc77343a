"""The table of contents of the app: its settings, and every function it registers. The only reader of the environment."""

import os

import azure.functions as func

from functions import health, release_gate, tick
from shared.connections import Connections
from shared.settings import Settings
from shared.wiring import gatehouse

# Wrong settings fail the indexing: nothing listens, and messages wait instead of being tried to death.
settings = Settings.parse(os.environ)
gates = gatehouse(Connections.parse(os.environ))

app = func.FunctionApp()
app.register_functions(health.blueprint(settings))
app.register_functions(release_gate.blueprint(gates))
app.register_functions(tick.blueprint(gates))
