"""The picture in docs/design.md: its functions are the app's, its names are the topology's."""

import re

from shared.topology import topology
from tools.local.paths import ROOT
from tools.local.picture import TAKES, WRITES, picture, triggers


def names():
    """Return every queue, topic, container and table there is, as the picture calls them."""
    whole = topology()
    return {
        *(f"queue {name}" for name in whole.queues),
        *(f"container {name}" for name in whole.containers),
        *(f"table {name}" for name in whole.tables),
        *(f"bus {queue.name}" for queue in whole.bus.queues),
        *(f"topic {topic.name}" for topic in whole.bus.topics),
    }


def test_every_function_of_the_app_is_in_the_picture():
    """A function that was added is missing here first; what answers over HTTP writes nothing."""
    drawn = {function for function, source in triggers().items() if source != "http"}
    assert drawn == set(WRITES) - {"publisher", "operator"}
    assert all(function in picture() for function in drawn)


def test_every_name_in_the_picture_is_in_the_topology():
    """What triggers a function and what is written exists."""
    sources = {source.removesuffix("/$DeadLetterQueue") for source in triggers().values()} - {"http", "timer"}
    assert sources | {name for written in WRITES.values() for name in written} | {*TAKES.values()} <= names()


def test_the_small_picture_in_the_readme_names_functions_of_the_app():
    """At most eight boxes; a box that is called as a function is one."""
    drawn = re.search(r"```mermaid\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    boxes = set(re.findall(r"\b([a-z_]+)\b(?=[(\[{]| -| *$)", drawn, re.MULTILINE)) - {"flowchart"}
    assert 6 <= len(boxes) <= 8
    assert {box for box in boxes if "_" in box} <= set(triggers())


def test_the_only_route_is_the_one_that_costs_nothing():
    """Nothing of the app can be asked without a login but whether it runs; a new route would have to be listed here."""
    assert [function for function, source in triggers().items() if source == "http"] == ["health"]


def test_the_console_is_a_route_only_where_it_is_on_and_guarded():
    """It asks for a login by itself: tests/console/test_function.py has each refusal."""
    wanted, guarded = ("SLUICE_CAPABILITIES", "console"), ("WEBSITE_AUTH_ENABLED", "True")
    assert "console" not in triggers(guarded)
    assert "console" not in triggers(wanted)
    assert triggers(wanted, guarded)["console"] == "http"
