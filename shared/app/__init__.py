"""The app: builds every stage from connections and settings.

Reading order:

- `app`: its verbs, the timer, and the lines of parked entries, for pages and commands.
- `stages`: the construction of the stages, and of the tasks of this process and of the fleet.
- `stores`: the tables, containers, queues and topics of an installation.
- `orders`: registration, a part that an installation may have.
"""

from shared.app.app import App, build_entry_reader
from shared.app.orders import ORDER_NUMBERS, RegistrationPart, RegistrationStores
from shared.app.stores import TRANSACTION_IDS, Stores

__all__ = [
    "ORDER_NUMBERS",
    "TRANSACTION_IDS",
    "App",
    "RegistrationPart",
    "RegistrationStores",
    "Stores",
    "build_entry_reader",
]
