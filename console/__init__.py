"""The pages that show what Sluice does, as one WSGI application. `sluice web` serves them on this machine,
and the function `console` in Azure.

Reading order:

- `app`: the application, from a request to a reply
- `guard`, `session`, `azure_login`: what is refused, and who a person is
- `function`: the application as a function of the app
- `render`: templates, and the text of others made harmless
- `snapshot`: what all tabs share, each part read once
- `pages`: one module for each page
"""

from console.app import Application
from console.session import LocalLogin, Login, Person
from console.snapshot import Snapshot
from console.visit import View, build_view

__all__ = ["Application", "LocalLogin", "Login", "Person", "Snapshot", "View", "build_view"]
