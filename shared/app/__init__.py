"""The app: builds every stage from connections and settings.

Reading order: `app` (its verbs), `stages` (how they are built), `stores` (what an installation has), `tick`.
"""

from shared.app.app import App
from shared.app.stores import Stores

__all__ = ["App", "Stores"]
