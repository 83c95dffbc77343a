"""The table of contents of the app: its settings, and every function it registers. The only reader of the environment."""

import os
from pathlib import Path

import azure.functions as func

from functions import (
    accept_hinted,
    accept_submission,
    change_order,
    console,
    drain_work,
    expire_orders,
    health,
    hear_seats,
    park_dead,
    park_dead_orders,
    place_order,
    process_chunk,
    project_conferences,
    project_orders,
    release_gate,
    sell_seats,
    settle_results,
    show_conference,
    show_order,
    start_orders,
    take_conferences,
    take_orders,
    take_payments,
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
    app.register_functions(process_chunk.blueprint(sluice))
    app.register_functions(settle_results.blueprint(sluice))
    app.register_functions(park_dead.blueprint(sluice))
    # A fault of the console leaves out the console alone: the work goes on without it.
    if sluice.settings.console.is_on:
        app.register_functions(console.blueprint(sluice))
    if sluice.settings.console.refusal:
        tell(events.CONSOLE_REFUSED, why=sluice.settings.console.refusal)
    # Off: the host indexes nothing of it, so nothing polls and nothing is asked.
    if orders := sluice.registration:
        app.register_functions(place_order.blueprint(orders))
        app.register_functions(change_order.blueprint(orders))
        app.register_functions(show_order.blueprint(orders))
        app.register_functions(show_conference.blueprint(orders))
        app.register_functions(take_orders.blueprint(orders))
        app.register_functions(take_payments.blueprint(orders))
        app.register_functions(take_conferences.blueprint(orders))
        app.register_functions(start_orders.blueprint(orders))
        app.register_functions(sell_seats.blueprint(orders))
        app.register_functions(hear_seats.blueprint(orders))
        app.register_functions(expire_orders.blueprint(orders))
        app.register_functions(project_orders.blueprint(orders))
        app.register_functions(project_conferences.blueprint(orders))
        app.register_functions(park_dead_orders.blueprint(orders))


quiet_libraries()
app = func.FunctionApp()
# Wrong settings register nothing that listens, and messages wait instead of being tried to death.
try:
    laid = lay(read_own(Path(__file__).parent), os.environ, is_deployed=in_azure(os.environ))
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
