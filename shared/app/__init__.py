"""The app: builds every stage from connections and settings.

Reading order:

- `app`: its verbs.
- `stages`: the construction of the stages.
- `stores`: the tables, containers, queues and topics of an installation.
- `tasks`: the tasks of this process and of the fleet.
- `tick`: the timer.
- `entry_reader`: the lines of parked entries, for pages and commands.
- `orders`: registration, a part that an installation may have.
"""

from shared.app.app import App
from shared.app.entry_reader import build_entry_reader
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
