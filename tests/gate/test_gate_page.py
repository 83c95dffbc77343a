"""docs/gate.md: each program on it, as it stands there but for the gate's name, on real storage and a real bus."""

import json
import re
import shlex
import threading

import pytest
from typer.testing import CliRunner

from shared.app import Stores
from shared.azure import Connections
from tests.waiting import LIMIT
from tools.cli.main import app
from tools.local.paths import ROOT

PAGE = (ROOT / "docs" / "gate.md").read_text()
#: The commands about a timetable, each with what it prints there.
CLOCKED = re.findall(r"^\$ (sluice gate open nightly --every .*)\n((?:[^$`].*\n)+)", PAGE, re.MULTILINE)
WAITING, LISTENING, FLAGS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def operator(stack_settings):
    """Opens and closes gates."""
    with Connections.parse(stack_settings) as connections:
        yield Stores(connections).gate_operator


@pytest.fixture
def started(stack_settings, gate):
    """Run a program in a thread: the thread, and the names that it defined."""

    def start(program):
        names = {"storage": stack_settings["SluiceStorage"], "bus": stack_settings["SluiceBus"]}
        thread = threading.Thread(target=exec, args=(program.replace('"nightly"', f'"{gate}"'), names), daemon=True)
        thread.start()
        return thread, names

    return start


@pytest.mark.parametrize("program", [WAITING, LISTENING], ids=["Release", "ListeningRelease"])
def test_a_program_of_the_page_goes_on_when_the_gate_opens(operator, started, gate, program):
    """Whether it subscribed before the opening or after it."""
    thread, names = started(program)
    operator.open(gate, by="ann")
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert (names["receipt"].gate, names["receipt"].epoch) == (gate, 1)


def test_a_program_of_the_page_waits_while_the_gate_is_closed(operator, started, gate):
    """The other half: it is no program that ends by itself."""
    thread, names = started(WAITING)
    thread.join(1.0)
    assert thread.is_alive()
    assert "receipt" not in names
    operator.open(gate, by="ann")
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_the_flag_of_the_page_is_set_waited_for_and_reset(started, connections):
    """It makes its container, and leaves no flag."""
    thread, names = started(FLAGS)
    thread.join(LIMIT)
    assert not thread.is_alive()
    container = connections.blobs.get_container_client("flags")
    assert (names["flag"].name, list(container.list_blob_names())) == ("books-closed", [])
    container.delete_container()


def without_days(text):
    """Return what a command prints, for any day and for any number of changes of the clock."""
    return re.sub(r"DAY(, DAY)*", "DAYS", re.sub(r"\d{4}-\d\d-\d\d( \d\d:00:00 UTC)?", "DAY", text))


def test_the_commands_of_the_page_set_and_end_a_timetable(stack_settings, gate, tmp_path):
    """They print what stands there, but for the next opening and the years of the clock's changes."""
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"Values": stack_settings}))
    assert len(CLOCKED) == 2
    for command, printed in CLOCKED:
        _sluice, *words = shlex.split(command.replace("nightly", gate, 1))
        done = CliRunner().invoke(app, [*words, "--settings", str(file)])
        wanted = without_days(printed.replace("nightly", gate))
        assert (done.exit_code, without_days(done.stdout)) == (0, wanted)
