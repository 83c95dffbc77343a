"""The table of contents of the app: its settings, and every function it registers. The only reader of the environment."""

import os
from pathlib import Path

import azure.functions as func

from functions import (
    accept_hinted,
    accept_submission,
    drain_work,
    health,
    of_capability,
    park_dead,
    release_gate,
    settle_results,
    tick,
)
from shared.app import App
from shared.azure import Connections, in_azure
from shared.errors import SettingsError, SluiceError
from shared.own import lay, read_own
from shared.settings import Settings
from shared.telemetry import events, quiet_libraries, telemetry, tell
from shared.usage import keep
from shared.workloads import Workloads


def register(sluice: App) -> None:
    """Register every function that the settings turn on."""
    for name, remedy in sluice.settings.unread.items():
        tell(events.SETTING_UNREAD, setting=name, remedy=remedy)
    keep(sluice.stores.diary)
    app.register_functions(health.blueprint(sluice))
    app.register_functions(release_gate.blueprint(sluice))
    app.register_functions(tick.blueprint(sluice))
    app.register_functions(accept_submission.blueprint(sluice))
    app.register_functions(accept_hinted.blueprint(sluice))
    app.register_functions(drain_work.blueprint(sluice))
    app.register_functions(settle_results.blueprint(sluice))
    app.register_functions(park_dead.blueprint(sluice))
    for why in sluice.settings.left_out.values():
        tell(events.CONSOLE_REFUSED, why=why)
    # The host indexes nothing of a capability that is off, so nothing polls and nothing is asked.
    for part in sluice.parts.built:
        app.register_functions(of_capability.blueprint(part.chosen.triggers, part.verbs, sluice.takeovers))


quiet_libraries()
app = func.FunctionApp()
# Wrong settings register nothing that listens, and messages wait instead of being tried to death.
try:
    laid = lay(read_own(Path(__file__).parent, os.environ), os.environ, is_deployed=in_azure(os.environ))
    settings = Settings.parse(laid.settings)
    connections = Connections.parse(os.environ, telemetry=telemetry(settings.telemetry))
    sluice = App(connections, settings, Workloads.load(settings.workloads, laid.settings))
except (SettingsError, SluiceError) as error:
    tell(events.START_REFUSED, why=str(error))
    # In a terminal the host shows the error. On Azure an app without functions would answer no request.
    if not in_azure(os.environ):
        raise
    app.register_functions(health.blueprint(None))
else:
    for name, both in laid.undeployed.items():
        tell(events.SETTING_UNDEPLOYED, setting=name, file=both.file, deployed=both.environment)
    register(sluice)
