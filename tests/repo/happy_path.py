"""The files of `shared`, and of capabilities, that one job, and one seat order, enter on their way through the whole app, on Azurite."""

import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from shared.topology import topology
from tests.pipeline.whole_app import WholeApp
from tests.registration.conftest import installation
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision

ROOT = Path(__file__).resolve().parents[2]


def happy_path():
    """Return the files in which functions run until a small job is complete, from its acceptance to its outputs.

    Two lists: in all threads, and in the one that has the deliveries; the others fetch ids and read results.
    """
    with Azurite.start() as own:
        provision(own.connection_string, topology())
        app = WholeApp(own.connection_string)
        with app.metered, app.others:
            app.submit("small", 1)
            with entered() as files:
                app.work_off()
            state = app.read("small").state.value
    if state != "complete":
        raise AssertionError(f"the job is {state}, which is no happy path")
    here = threading.current_thread().name
    return sorted({name for name, _ in files}), sorted({name for name, thread in files if thread == here})


def seat_order_path():
    """Return the files in which functions run from the placing of an order for a seat until customers are shown it."""
    with installation() as world:
        world.take("conference", id="k1", conference="c1", seats={"a": {"price": "5.00", "quota": 10}})
        world.pump()
        with entered() as files:
            world.take("place_order", order="order-1", conference="c1", seats={"a": 1})
            world.pump()
    return sorted({name for name, _ in files})


@contextmanager
def entered(root=ROOT):
    """Collect each file of `shared` and of capabilities in which functions run meanwhile, with its thread; also of threads that begin then."""
    folders, files = (f"{root / 'shared'}/", f"{root / 'capabilities'}/"), set()

    def note(frame, event, _argument):
        # Code that runs because a module is imported is no part of the way.
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(folders):
            files.add((frame.f_code.co_filename.removeprefix(f"{root}/"), threading.current_thread().name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
