"""The app's one timer. It reads the flags and starts all work whose signal was lost."""

import azure.functions as func

from shared.app import App
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `tick`."""
    functions = func.Blueprint()

    @functions.timer_trigger(arg_name="timer", schedule="%SLUICE_TICK_SCHEDULE%")
    def tick(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host binds it by this name
        with discreet():
            app.tick()

    return functions
