"""Measure what Microsoft's worker library from PyPI can index and convert here, over this folder's app.

    python3 -m venv /tmp/worker && . /tmp/worker/bin/activate
    pip install azure-functions azure-storage-blob aiohttp              # what the app and this package import
    pip install azure-functions-worker                                  # fails where its grpcio does not build; then:
    pip install --no-deps azure-functions-worker && pip install grpcio "protobuf<3.21"
    PYTHONPATH=src:tests python -m host_tests.worker_library    # in the folder of this package

Both sides get the same bindings and the same values, in the form that Azure's host sends.
"""

import importlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The worker's generated code is too old for protobuf's C library. Read when the worker is imported, just below.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

from azure.functions.meta import Datum
from azure_functions_worker import loader, protos
from azure_functions_worker.bindings import meta
from azure_functions_worker.functions import Registry
from functions_local_host import conversion
from functions_local_host.bindings import index_bindings
from functions_local_host.datum_values import StringCollection
from functions_local_host.http_datums import Incoming, request_datum
from functions_local_host.signature import read_signature

APP = Path(__file__).parent / "app"
SETTINGS = {
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    "Bus": "Endpoint=sb://127.0.0.1:1;",
    "HOURLY": "0 0 * * * *",
    **{name: name for name in ("WORK_QUEUE", "COPY_IN", "PUBLISH_IN", "BUS_QUEUE", "BUS_SESSIONS", "BUS_TOPIC")},
}
#: A value of each trigger: its binding, its form and content, its metadata; as the host sends them.
BATCH = {
    "MessageIdArray": ("json", '["1", "2"]'),
    "UserPropertiesArray": ("json", "[{}, {}]"),
    "SystemPropertiesArray": ("json", "[{}, {}]"),
}
VALUES = {
    "queue message": ("queueTrigger", "string", "hello", {"Id": ("string", "1"), "DequeueCount": ("json", "1")}),
    "timer": ("timerTrigger", "json", '{"Schedule": {}, "ScheduleStatus": null, "IsPastDue": false}', {}),
    "bus message": (
        "serviceBusTrigger",
        "bytes",
        b"hello",
        {"MessageId": ("string", "1"), "UserProperties": ("json", "{}")},
    ),
    "batch of bus messages": ("serviceBusTrigger", "collection_string", ["a", "b"], BATCH),
}


def attempt(work: Callable[[], Any]) -> str:
    """Return "yes", or the error's first line."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the error is the measurement
        return f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
    return "yes"


def functions() -> list[Any]:
    """Return the app's functions, as azure-functions collects them from the decorators."""
    sys.path.insert(0, str(APP))
    return list(importlib.import_module("function_app").app.get_functions())


def loaded_by_worker(function: Any) -> str:
    """Let the worker load a function whose bindings it is handed, as function.json would name them."""
    bindings = {}
    for text in function.get_raw_bindings():
        said = json.loads(text)
        many = {"direction": getattr(protos.BindingInfo, said["direction"].lower()), "type": said["type"]}
        bindings[said["name"]] = protos.BindingInfo(**many)
    described = protos.RpcFunctionMetadata(name=function.get_function_name(), bindings=bindings)
    return attempt(lambda: Registry().add_function("id", function.get_user_function(), described))


def loaded_here(function: Any) -> str:
    """Let this package read the same bindings and signature."""
    name, raw = function.get_function_name(), [json.loads(text) for text in function.get_raw_bindings()]
    return attempt(lambda: read_signature(index_bindings(name, raw, SETTINGS), function.get_user_function()))


def converted_by_worker(kind: str, form: str, value: Any, metadata: dict[str, tuple[str, Any]]) -> str:
    """Let the worker turn the host's value into the parameter's."""

    def typed(form: str, value: Any) -> Any:
        if form == "collection_string":
            return protos.TypedData(collection_string={"string": value})
        return protos.TypedData(**{form: value})

    return attempt(
        lambda: consume(
            meta.from_incoming_proto(
                kind,
                typed(form, value),
                pytype=None,
                trigger_metadata={key: typed(*one) for key, one in metadata.items()},
            )
        )
    )


def converted_here(kind: str, form: str, value: Any, metadata: dict[str, tuple[str, Any]]) -> str:
    """Let this package do so."""
    given = StringCollection(value) if form == "collection_string" else value
    return attempt(
        lambda: consume(
            conversion.decode(kind, Datum(given, form), {key: Datum(v, f) for key, (f, v) in metadata.items()})
        )
    )


def http_by_worker() -> str:
    """Let the worker turn the host's request into a function's."""
    request = protos.RpcHttp(method="POST", url="http://x/?a=1", query={"a": "1"}, body=protos.TypedData(bytes=b"b"))
    typed = protos.TypedData(http=request)
    return attempt(lambda: consume(meta.from_incoming_proto("httpTrigger", typed, pytype=None, trigger_metadata={})))


def http_here() -> str:
    """Let this package do so."""
    request = Incoming("POST", "http://x/?a=1", (("content-length", "1"),), (("a", "1"),), b"b")
    return attempt(lambda: consume(conversion.decode("httpTrigger", request_datum(request, {}), {})))


def consume(value: Any) -> None:
    """Read the body, which some converters do lazily."""
    for one in value if isinstance(value, list) else [value]:
        if hasattr(one, "get_body"):
            one.get_body()


def main() -> None:
    """Print the table."""
    found = functions()
    worker, here = [loaded_by_worker(one) for one in found], [loaded_here(one) for one in found]
    indexes = "yes" if any("index" in name for name in dir(loader)) else "no: wants a function.json for each function"
    version = importlib.metadata.version
    rows = [
        (
            f"Python {platform.python_version()}",
            f"azure-functions-worker {version('azure-functions-worker')}",
            "this package",
        ),
        ("---", "---", "---"),
        ("finds functions by their decorators", indexes, f"{here.count('yes')} of {len(found)}"),
        (
            "loads functions whose bindings are handed over",
            f"{worker.count('yes')} of {len(found)}",
            f"{here.count('yes')} of {len(found)}",
        ),
    ]
    needs = ", ".join(
        sorted(one for one in importlib.metadata.requires("azure-functions-worker") or () if "grpc" in one)
    )
    rows.append(
        (
            "needs, beside azure-functions",
            f"{needs}; here grpcio {version('grpcio')}, protobuf {version('protobuf')}",
            "aiohttp",
        )
    )
    rows.append(("converts an HTTP request", http_by_worker(), http_here()))
    rows += [(f"converts a {name}", converted_by_worker(*one), converted_here(*one)) for name, one in VALUES.items()]
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    for one, said, ours in zip(found, worker, here, strict=True):
        if {said, ours} != {"yes"}:
            print(f"{one.get_function_name()}: worker {said}; here {ours}", file=sys.stderr)


if __name__ == "__main__":
    main()
