"""The table of contents of the app: its settings, and every function it registers. The only reader of the environment."""

import os

import azure.functions as func

from functions import health
from shared.settings import Settings

# Wrong settings fail the indexing: nothing listens, and messages wait instead of being tried to death.
settings = Settings.parse(os.environ)

app = func.FunctionApp()
app.register_functions(health.blueprint(settings))
