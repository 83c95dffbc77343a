"""The host's own test app: one function per trigger form, each form in a file of its own."""

import azure.functions as func

from triggers import http, timer

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
for module in (http, timer):
    app.register_functions(module.blueprint)
