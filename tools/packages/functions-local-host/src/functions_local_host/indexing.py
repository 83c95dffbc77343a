"""The app's functions, found in its function_app.py through the public API of azure-functions."""

import importlib
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import azure.functions as func

from functions_local_host.bindings import FunctionRefusedError, index_bindings
from functions_local_host.contract import IndexedFunction
from functions_local_host.local_settings import connection_string, is_disabled
from functions_local_host.routes import Route
from functions_local_host.schedule import parse_schedule
from functions_local_host.signature import AppRefusedError, Signature, read_signature

_SCRIPT_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_\-]*\.py")


@dataclass(frozen=True, slots=True)
class AppFunction:
    """A function that will run: its bindings, its code and how to call it."""

    indexed: IndexedFunction
    code: Callable[..., Any]
    signature: Signature
    is_disabled: bool = False
    #: what the host ignores here, one line each
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.indexed.name

    @property
    def is_async(self) -> bool:
        """Return true if it runs on the worker's event loop and not on its thread pool."""
        return inspect.iscoroutinefunction(self.code)


@dataclass(frozen=True, slots=True)
class App:
    """Findings of indexing. `refused` holds the host's reason by function."""

    functions: Mapping[str, AppFunction]
    refused: Mapping[str, str]


def load_app(folder: Path, settings: Mapping[str, str], allowed: frozenset[str] | None = None) -> App:
    """Import and index the app, or raise AppRefusedError where the worker would end up with no function at all."""
    script = settings.get("PYTHON_SCRIPT_FILE_NAME", "function_app.py")
    if not _SCRIPT_NAME.fullmatch(script):
        raise AppRefusedError(f"PYTHON_SCRIPT_FILE_NAME is {script!r}, expected the name of a .py file")
    if not (folder / script).is_file():
        raise AppRefusedError(f"no {script} in {folder}: name the app's folder with --app")
    return index_app(_registers(_import(folder, script), script), settings, allowed)


def index_app(app: func.FunctionRegister, settings: Mapping[str, str], allowed: frozenset[str] | None = None) -> App:
    """Index one FunctionApp object. The library lets this happen once in its life."""
    try:
        found = app.get_functions()
    except ValueError as error:
        raise AppRefusedError(f"the library refuses the app: {error}") from error
    # Microsoft's worker, where it runs the app, indexes the same object and asks for them again.
    app.get_functions = lambda: found  # type: ignore[method-assign]
    functions: dict[str, AppFunction] = {}
    refused: dict[str, str] = {}
    by_name = {str(function.get_function_name()): function for function in found}
    for name in sorted(name for name in by_name if allowed is None or name in allowed):
        try:
            functions[name] = _app_function(name, by_name[name], settings)
        except FunctionRefusedError as error:
            refused[name] = str(error)
    return App(functions, refused)


def _app_function(name: str, function: Any, settings: Mapping[str, str]) -> AppFunction:
    code = function.get_user_function()
    indexed = index_bindings(name, [json.loads(text) for text in function.get_raw_bindings()], settings)
    disabled = is_disabled(name, settings)
    if not disabled:
        _check_reachable(indexed, settings)
    has_retry = bool(function.get_settings_dict("retry_policy"))
    warnings = ("its retry policy is not applied by this host",) if has_retry else ()
    return AppFunction(indexed, code, read_signature(indexed, code), disabled, warnings)


def _check_reachable(function: IndexedFunction, settings: Mapping[str, str]) -> None:
    trigger = function.trigger
    try:
        if trigger.type == "httpTrigger":
            Route.parse(str(trigger.settings.get("route", function.name)))
        if trigger.type == "timerTrigger":
            parse_schedule(str(trigger.settings.get("schedule", "")))
        for binding in (trigger, *function.outputs):
            if binding.type not in {"httpTrigger", "http"}:
                connection_string(str(binding.settings.get("connection", "")), settings)
    except (ValueError, LookupError) as error:
        raise FunctionRefusedError(str(error)) from error


def _import(folder: Path, script: str) -> object:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(script.removesuffix(".py"))
    except Exception as error:
        place = _place(error, folder)
        raise AppRefusedError(f"{script} cannot be imported: {type(error).__name__}: {error}{place}") from error


def _place(error: BaseException, folder: Path) -> str:
    if isinstance(error, SyntaxError):
        return ""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(folder)]
    return f" ({Path(frames[-1].filename).relative_to(folder)}, line {frames[-1].lineno})" if frames else ""


def _registers(module: object, script: str) -> func.FunctionRegister:
    apps = [v for name in dir(module) if isinstance(v := getattr(module, name), func.FunctionRegister)]
    if len(apps) != 1:
        found = "no top-level FunctionApp" if not apps else f"{len(apps)} top-level FunctionApp objects"
        raise AppRefusedError(
            f"{script} has {found}, the worker wants exactly one; attach blueprints with register_functions"
        )
    return apps[0]
