"""Twist's own proof: a table with a primary key, filled by many threads in many processes."""

import inspect
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.ids.order_numbers import place_orders

DOCS = Path(__file__).parents[2] / "docs" / "ids.md"


def test_no_order_number_violates_the_primary_key(azurite, tmp_path):
    """Threads in several processes insert orders under numbers from one blob, and every insert succeeds."""
    database = str(tmp_path / "orders.sqlite")
    with closing(sqlite3.connect(database)) as table:
        table.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, text TEXT)")
    with multiprocessing.get_context("forkserver").Pool(4) as processes:
        processes.starmap(place_orders, [(azurite.connection_string, database, 2000)] * 4)
        processes.close()
        processes.join()
    with closing(sqlite3.connect(database)) as table:
        assert table.execute("SELECT count(*), count(DISTINCT number), min(number) FROM orders").fetchone() == (
            8000,
            8000,
            1,
        )


def test_the_example_in_the_docs_is_the_one_that_was_tested():
    """What a reader copies out of the documentation is what the test above ran."""
    assert inspect.getsource(place_orders) in DOCS.read_text(encoding="utf-8")
