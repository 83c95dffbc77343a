"""The protocol between this host and a worker in a process of its own: gRPC, with the values of messages as Datum."""

import importlib
from email.utils import format_datetime
from functools import cache
from http.cookies import SimpleCookie
from typing import Any, cast

from azure.functions.meta import Datum

from functions_local_host.errors import StartError

SERVICE, METHOD = "AzureFunctionsRpcMessages.FunctionRpc", "EventStream"
#: No limit of its own: a message of the bus or a request may be large.
LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
#: Forms of a value that are fields of that name, with a value of Python's own.
_PLAIN = frozenset({"string", "json", "bytes", "int", "double"})
#: Forms of a value that are a list within a message.
_LISTS = {"collection_string": "string", "collection_bytes": "bytes", "collection_sint64": "sint64"}
_SAME_SITES = {1: "lax", 2: "strict", 3: "none"}


def grpc() -> Any:
    """Return the library, which is not installed with this host."""
    try:
        importlib.import_module("grpc_tools.protoc")
        return importlib.import_module("grpc")
    except ImportError as error:
        raise StartError(
            f"the worker by gRPC cannot be imported ({error}): install the packages grpcio and grpcio-tools"
        ) from error


@cache
def messages() -> Any:
    """Return the classes of the messages, made from worker_protocol.proto."""
    return grpc().protos("functions_local_host/worker_protocol.proto")


def from_datum(datum: Datum) -> Any:
    """Return a value as the worker is told it."""
    typed, form = messages().TypedData, str(datum.type)
    if form in _PLAIN:
        return typed(**{form: datum.value})
    if field := _LISTS.get(form):
        kind = typed.DESCRIPTOR.fields_by_name[form].message_type.name
        return typed(**{form: getattr(messages(), kind)(**{field: getattr(datum.value, field)})})
    if form == "http":
        parts = datum.value
        texts = {name: _texts(parts[name]) for name in ("headers", "query", "params")}
        request = messages().RpcHttp(method=parts["method"].value, url=parts["url"].value, **texts)
        request.body.CopyFrom(from_datum(parts["body"]))
        return typed(http=request)
    raise TypeError(f"the protocol has no value of form {form!r}")


def to_datum(typed: Any) -> Datum | None:
    """Return a value that the worker gave. None: it gave none."""
    form = typed.WhichOneof("data")
    if form is None:
        return None
    if form == "http":
        said = typed.http
        return Datum(
            {
                "status_code": Datum(said.status_code, "string"),
                "headers": {name: Datum(value, "string") for name, value in said.headers.items()},
                "cookies": [_cookie(one) for one in said.cookies],
                "body": to_datum(said.body) or Datum(b"", "bytes"),
            },
            "http",
        )
    if form not in _PLAIN:
        raise TypeError(f"the worker gave a value of form {form!r}, which no binding of this host takes")
    return Datum(getattr(typed, form), form)


def _texts(values: dict[str, Datum]) -> dict[str, str]:
    return {name: value.value for name, value in values.items()}


def _cookie(said: Any) -> "SimpleCookie":
    found = SimpleCookie()
    found[said.name] = said.value
    cookie = found[said.name]
    for name, field in (("domain", said.domain), ("path", said.path)):
        cookie[name] = field.value
    if said.expires.WhichOneof("timestamp"):
        # The library's own text, of which the time was read.
        cookie["expires"] = format_datetime(said.expires.value.ToDatetime()).replace("-0000", "GMT")
    if said.max_age.WhichOneof("double"):
        cookie["max-age"] = f"{said.max_age.value:g}"
    cookie["secure"], cookie["httponly"] = cast("str", said.secure.value), cast("str", said.http_only.value)
    cookie["samesite"] = _SAME_SITES.get(said.same_site, "")
    return found
