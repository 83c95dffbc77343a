"""The app's one timer. It reads the flags and starts all work whose signal was lost."""

import azure.functions as func

from shared.telemetry.failure import discreet
from shared.wiring import Line


def blueprint(line: Line) -> func.Blueprint:
    """Return the blueprint that registers `tick`."""
    functions = func.Blueprint()

    @functions.timer_trigger(arg_name="timer", schedule="%SLUICE_TICK_SCHEDULE%")
    def tick(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the host binds it by this name
        with discreet():
            line.tick.run()

    return functions
