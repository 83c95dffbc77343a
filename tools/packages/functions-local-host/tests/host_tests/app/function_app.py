"""The host's own test app: one function per trigger form, each kind in a file of its own below triggers/."""

import importlib
import pkgutil

import azure.functions as func
import triggers

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
for found in pkgutil.iter_modules(triggers.__path__):
    app.register_functions(importlib.import_module(f"triggers.{found.name}").blueprint)
