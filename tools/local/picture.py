"""The picture of the architecture: the app names the trigger of each function, this module names its writes.

A test holds every name in it against the topology, and every function of the app against it.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from tools.local.errors import StackError
from tools.local.paths import ROOT, venv_python
from tools.local.stack import sample_values

_INDEX: Final = """
import json, function_app
print(json.dumps({one.get_function_name(): json.loads(one.get_function_json())["bindings"][0]
                  for one in function_app.app.get_functions()}))
"""
#: What each function, and a publisher, writes: queues, topics, containers and tables, by kind.
WRITES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "publisher": ("container payloads", "queue submissions", "bus hints"),
        **dict.fromkeys(
            ("accept_submission", "accept_hinted"),
            ("queue work-00", "bus permits", "container plans", "container ids", "table jobs", "table held"),
        ),
        "drain_work": ("container permits", "container results", "bus results", "container outputs", "table totals"),
        "settle_results": ("table jobs", "queue work-00"),
        "release_gate": ("queue work-00", "topic signals", "bus permits", "table receipts"),
        "tick": ("queue work-00", "topic signals", "bus permits", "table pending", "table decisions"),
        "park_dead": ("table parked", "container parked"),
        "operator": ("container gates", "topic signals"),
    }
)
#: The queue that a function receives from by itself, when something else has started it.
TAKES: Final[Mapping[str, str]] = MappingProxyType(
    {"accept_hinted": "queue submissions", "drain_work": "queue work-00"}
)
_SHAPES: Final = {
    "queue": '[["{}"]]',
    "bus": '[["{}"]]',
    "topic": '{{{{"{}"}}}}',
    "container": '[("{}")]',
    "table": '[("{}")]',
}


@cache
def triggers(*settings: tuple[str, str]) -> Mapping[str, str]:
    """Return the trigger of each function of the app, as the worker would index it. `settings` replace the sample's."""
    environment = {**os.environ, **sample_values(), **dict(settings), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(venv_python()), "-c", _INDEX], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StackError(f"the app cannot be indexed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return {function: _source(binding) for function, binding in found.items()}


def _source(binding: Mapping[str, Any]) -> str:
    match binding["type"]:
        case "queueTrigger":
            return f"queue {binding['queueName']}"
        case "serviceBusTrigger" if "topicName" in binding:
            return f"topic {binding['topicName']}"
        case "serviceBusTrigger":
            return f"bus {binding['queueName']}"
        case "timerTrigger":
            return "timer"
        case _:
            return "http"


def picture() -> str:
    """Return the picture in Mermaid, as GitHub draws it."""
    return "\n".join(["```mermaid", "flowchart LR", *(f"    {line}" for line in _lines()), "```"])


def _lines() -> Iterator[str]:
    started = {function: source for function, source in triggers().items() if source != "http"}
    if unknown := started.keys() - WRITES.keys():
        raise StackError(
            f"the picture lacks the function {min(unknown)}: name its writes in WRITES of tools/local/picture.py"
        )
    nodes = [
        *started.values(),
        *(name for function in (*started, "publisher", "operator") for name in WRITES[function]),
    ]
    yield 'publisher(["publisher"])'
    yield 'operator(["operator"])'
    for name in dict.fromkeys(nodes):
        yield f"{_id(name)}{_shape(name)}"
    for function, source in started.items():
        yield f'{_id(source)} --> {function}["{function}"]'
    for function, queue in TAKES.items():
        yield f"{_id(queue)} -- taken --> {function}"
    for writer in (*started, "publisher", "operator"):
        yield f"{writer} -.-> {' & '.join(_id(name) for name in WRITES[writer])}"


def _shape(name: str) -> str:
    kind, _, _ = name.partition(" ")
    return _SHAPES.get(kind, '(("{}"))').format(name)


def _id(name: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in name)
