"""Values between the host's form and Python's, by the library's own converters, as the worker calls them."""

from collections.abc import Mapping
from typing import Any

from azure.functions.meta import Datum, get_binding_registry

#: Parameters annotated `str` or `bytes` bypass the trigger's own type: the raw body is delivered.
GENERIC = "generic"


class ConversionError(TypeError):
    """Raised when the library has no way between a value and a binding."""


def accepts_input(kind: str, annotation: Any) -> bool:
    """Return true if the library takes this annotation on a parameter of this binding type."""
    return kind == GENERIC or _checked(get_binding_registry().get(kind), "check_input_type_annotation", annotation)


def accepts_output(kind: str, annotation: Any) -> bool:
    """Return true if the library takes this annotation on an output of this binding type."""
    return kind == GENERIC or _checked(get_binding_registry().get(kind), "check_output_type_annotation", annotation)


def _checked(converter: Any, check: str, annotation: Any) -> bool:
    try:
        return bool(getattr(converter, check)(annotation))
    except TypeError:
        # issubclass on a value that is no class, for instance Optional[...]: the real worker refuses it too.
        return False


def decode(kind: str, datum: Datum, metadata: Mapping[str, Datum]) -> Any:
    """Return the value of the trigger's parameter."""
    if kind == GENERIC:
        return datum.value
    try:
        return get_binding_registry().get(kind).decode(datum, trigger_metadata=metadata)
    except NotImplementedError as error:
        raise ConversionError(f"unable to decode a value of form {datum.type!r} for a {kind}: {error}") from error


def encode(kind: str, value: Any) -> Datum:
    """Return the host's value of one output."""
    if kind == GENERIC:
        return _encode_generic(value)
    try:
        encoded: Datum = get_binding_registry().get(kind).encode(value, expected_type=None)
    except NotImplementedError as error:
        raise ConversionError(f"unable to encode a {type(value).__name__} for a {kind} binding") from error
    return encoded


def _encode_generic(value: Any) -> Datum:
    if isinstance(value, str):
        return Datum(value, "string")
    if isinstance(value, bytes | bytearray):
        return Datum(bytes(value), "bytes")
    raise ConversionError(f"unable to encode a {type(value).__name__} where str or bytes is declared")
