"""Python signatures against bindings, as the worker checks them: one mismatch fails the whole app."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import azure.functions as func

from functions_local_host.contract import Binding, IndexedFunction
from functions_local_host.conversion import GENERIC, accepts_input, accepts_output

RETURN = "$return"
CONTEXT = "context"


class AppRefusedError(ValueError):
    """Raised when the worker would refuse the app as a whole."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How to call one function: which converter serves each parameter."""

    trigger: str
    trigger_kind: str
    #: parameter name -> converter
    outputs: Mapping[str, str]
    #: the converter of the return value; None: the function has no output of that name
    returns: str | None
    has_context: bool


def read_signature(function: IndexedFunction, code: Callable[..., Any]) -> Signature:
    """Return how to call the function, or raise with the worker's reason."""
    parameters = dict(inspect.signature(code).parameters)
    hints = _hints(function.name, code)
    bound = {binding.name: binding for binding in (function.trigger, *function.outputs) if binding.name != RETURN}
    has_context = _take_context(function.name, parameters, bound, hints)
    _check_same_names(function.name, set(parameters), set(bound))
    outputs = {b.name: _output_kind(function.name, b, hints) for b in function.outputs if b.name != RETURN}
    returned = next((binding for binding in function.outputs if binding.name == RETURN), None)
    return Signature(
        trigger=function.trigger.name,
        trigger_kind=_trigger_kind(function.name, function.trigger, hints),
        outputs=outputs,
        returns=None if returned is None else _return_kind(function.name, returned, hints),
        has_context=has_context,
    )


def _hints(name: str, code: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(code)
    except NameError as error:
        raise _refused(
            name, f"an annotation does not resolve at run time: {error}; import it outside TYPE_CHECKING"
        ) from error


def _take_context(
    name: str, parameters: dict[str, inspect.Parameter], bound: Mapping[str, Binding], hints: Mapping[str, Any]
) -> bool:
    if CONTEXT not in parameters or CONTEXT in bound:
        return False
    del parameters[CONTEXT]
    annotation = hints.get(CONTEXT)
    if annotation is not None and getattr(annotation, "__name__", "") != "Context":
        raise _refused(name, f"the parameter 'context' is annotated {_spelled(annotation)}, expected func.Context")
    return True


def _check_same_names(name: str, declared: set[str], bound: set[str]) -> None:
    if extra := declared - bound:
        raise _refused(
            name, f"parameters without a binding: {', '.join(sorted(extra))}; add the decorator or remove them"
        )
    if missing := bound - declared:
        raise _refused(name, f"bindings without a parameter: {', '.join(sorted(missing))}; name a parameter after each")


def _trigger_kind(name: str, trigger: Binding, hints: Mapping[str, Any]) -> str:
    annotation = hints.get(trigger.name)
    if annotation is None:
        return trigger.type
    if _is_out(annotation):
        raise _refused(name, f"binding {trigger.name!r} is an input, its annotation is func.Out")
    if annotation in (str, bytes):
        return GENERIC
    if not accepts_input(trigger.type, annotation):
        hint = "; write typing.List" if typing.get_origin(annotation) is list else ""
        raise _refused(name, f"{trigger.name!r} of type {trigger.type} does not take {_spelled(annotation)}{hint}")
    return trigger.type


def _output_kind(name: str, binding: Binding, hints: Mapping[str, Any]) -> str:
    annotation = hints.get(binding.name)
    if annotation is None:
        return binding.type
    if not _is_out(annotation):
        raise _refused(name, f"binding {binding.name!r} is an output, its annotation is not func.Out")
    inner = next(iter(typing.get_args(annotation)), None)
    if inner in (str, bytes):
        return GENERIC
    if inner is not None and not accepts_output(binding.type, inner):
        raise _refused(name, f"{binding.name!r} of type {binding.type} does not take func.Out[{_spelled(inner)}]")
    return binding.type


def _return_kind(name: str, binding: Binding, hints: Mapping[str, Any]) -> str:
    annotation = hints.get("return", func.HttpResponse if binding.type == "http" else str)
    if annotation is str and "return" not in hints:
        return binding.type
    # Unlike a parameter, a return of str or bytes keeps its binding's converter: the worker's own test for them never
    # holds (`return_pytype is (str, bytes)`), so the converter decides.
    if not accepts_output(binding.type, annotation):
        raise _refused(name, f"its return annotation {_spelled(annotation)} does not match the {binding.type} binding")
    return binding.type


def _is_out(annotation: Any) -> bool:
    return annotation is func.Out or typing.get_origin(annotation) is func.Out


def _spelled(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(annotation)


def _refused(name: str, reason: str) -> AppRefusedError:
    return AppRefusedError(f"cannot load the function {name}: {reason}")
