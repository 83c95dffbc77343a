"""The example of docs/ids.md: many threads in many processes give orders their numbers, and a primary key judges."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

from shared.azure import BlobStore, connect
from shared.ids import RangeGenerator


def place_orders(connection_string: str, database: str, orders: int) -> None:
    """Insert so many orders from eight threads; a number that exists is an IntegrityError."""
    with (
        connect(connection_string) as container,
        RangeGenerator(BlobStore(container, "ordernumber")) as numbers,
        ThreadPoolExecutor(8) as threads,
    ):
        rows = list(threads.map(lambda _: (numbers.next_id(), "an order"), range(orders)))
    with sqlite3.connect(database, timeout=60) as table:
        table.executemany("INSERT INTO orders (number, text) VALUES (?, ?)", rows)
    table.close()
