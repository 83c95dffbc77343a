"""The commands of registration, for operators, shops and banks. The command imports them when one is called."""

from capabilities.registration.commands.migrate import app as migrate
from capabilities.registration.commands.orders import orders, processes, seats
from capabilities.registration.commands.sales import conferences

__all__ = ["conferences", "migrate", "orders", "processes", "seats"]
