"""docs/first-sale.md, typed word for word against the running app: an order is paid, seats are counted, a conference is closed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_documents import blocks
from tests.outside.customer import Customer
from tests.waiting import LIMIT, until
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running

SLUICE = Path(sys.executable).parent
#: What `make up` listens on, and the only thing of the page that is another one here.
ADDRESS = "http://127.0.0.1:7071"


@pytest.fixture(scope="module")
def stack(host_kind, worker):
    """A stack with registration, as `make up ARGS="--capabilities registration"` runs it."""
    with running(
        StackOptions(host=host_kind, worker=worker, settings={"SLUICE_CAPABILITIES": "registration"})
    ) as started:
        yield started


@pytest.fixture(scope="module")
def types(stack, tmp_path_factory):
    """Type a script into a shell that finds `sluice`, and return what it printed."""
    folder = tmp_path_factory.mktemp("typed")
    path = f"{SLUICE}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **stack.settings, "PATH": path, "COLUMNS": "200"}

    def run(script, status=0):
        script = script.replace(".venv/bin/sluice", "sluice").replace(ADDRESS, stack.host.base_url)
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert done.returncode == status, f"{script}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture(scope="module")
def sale(types):
    """What the first block of the page prints."""
    return types(blocks("docs/first-sale.md")[0]).stdout


def asked(types, words):
    """Return the JSON of a command."""
    return json.loads(types(f"sluice {words} --json").stdout)


def test_the_page_sells_two_seats_and_closes_the_conference(sale, types):
    """Each command succeeds in its order, and what the page says of it is so."""
    order = asked(types, "orders show first")
    assert (order["state"], order["paid"], order["reserved"]) == ("confirmed", "1000.00", {"whole": 2})
    seats = asked(types, "seats show pycon")
    assert seats["uneven"] == []
    left = {name: (one["quota"], one["available"], one["confirmed"]) for name, one in seats["types"].items()}
    assert left == {"whole": (2, 0, 2), "half": (0, 0, 0)}
    rows = [line.split() for line in sale.replace("│", " ").splitlines()]
    assert ["whole", "500.00", "20", "18", "0", "2"] in rows, "the page says what `seats show` prints before the end"
    assert [row[1] for row in rows if row[:1] == ["state"]] == ["reserved", "reserved", "confirmed", "confirmed"]


def test_the_code_that_was_printed_opens_the_order_and_is_printed_once(sale, stack):
    """Nobody else has it."""
    (code,) = [line.split()[1] for line in sale.splitlines() if line.split()[:1] == ["access_code"]]
    assert sale.count(code) == 1
    customer = Customer(stack.host.base_url, "none is needed here")
    assert customer.show("first", code).body["state"] == "confirmed"
    assert customer.show("first", code[:-1]).status == 404


def test_the_same_commands_again_change_nothing(sale, types):
    """A payment and an order count once, by their ids and the order's code."""
    (code,) = [line.split()[1] for line in sale.splitlines() if line.split()[:1] == ["access_code"]]
    before = asked(types, "orders show first")
    types("sluice orders pay first --amount 1000.00 --id p-1 --wait 60")
    types(f"sluice orders place pycon whole=2 --order first --access-code {code} --wait 60")
    assert asked(types, "orders show first") == before


def test_a_shops_own_site(types):
    """The second block: over HTTP, with a code of the site's own."""
    shown = types(blocks("docs/first-sale.md")[1]).stdout
    placed, reserved, confirmed, conference = (one for one in read_documents(shown) if "order" in one or "seats" in one)
    assert placed["order"] == "second"
    assert (reserved["state"], reserved["total"]) == ("reserved", "10.00")
    assert (confirmed["state"], confirmed["paid"]) == ("confirmed", "10.00")
    assert conference["seats"]["whole"]["quota"] == 3


def test_what_is_refused_says_so(types):
    """With the reason, and the status of a failure: an order of another's id, a wrong amount, a conference nobody made."""
    types("sluice conferences create small a=2@5.00 --wait 60")
    types("sluice orders place small a=1 --order taken --wait 60")
    other = types("sluice orders place small a=2 --order taken --wait 60", status=1)
    assert "order_differs" in other.stderr
    wrong = types("sluice orders pay taken --amount 4.99 --id p-9 --wait 60", status=1)
    assert "amount_differs" in wrong.stderr
    nobody = types("sluice conferences close nobody --wait 60", status=1)
    assert "unknown_conference" in nobody.stderr
    assert types("sluice orders pay taken --amount 5 --id p-8", status=1).stderr.count("bad_price") == 1
    assert "TYPE=NUMBER" in types("sluice orders place --help").stdout
    assert "whole=2" in types("sluice orders place small a:1", status=2).stderr
    open_still = types("sluice conferences close small --wait 60", status=1)
    assert "1 seats are reserved" in open_still.stderr
    assert asked(types, "seats show small")["types"]["a"]["available"] == 0


def test_a_stranger_draws_the_lottery_of_a_gate_again(types):
    """By the commands of the one page and the lines of the other, which need nothing of Sluice."""
    page = (ROOT / "docs" / "gate.md").read_text()
    seed, opening, roll = (line.split("  ")[0] for line in page.splitlines() if re.match("sluice gate .* launch", line))
    types("sluice conferences create lots whole=2@5.00 --wait 60")
    for number in range(6):
        types(f"sluice orders place lots whole=1 --order lot-{number} --gate launch --wait 60")
    committed = json.loads(types(f"{seed} --json").stdout)["sha256"]
    types(opening)
    types(f"{roll} > roll.json")
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "appendix" / "gate.md").read_text(), re.DOTALL)
    found = types(f"python3 -I - <<'END'\n{lines}\nprint(committed, *(name for name, *_ in roll['places']))\nEND")
    drawn_by, *drawn = found.stdout.split()
    assert (drawn_by, sorted(drawn)) == (committed, [f"lot-{number}" for number in range(6)])
    until(lambda: not {"held", "placed"} & {asked(types, f"orders show {name}")["state"] for name in drawn})
    states = [asked(types, f"orders show {name}")["state"] for name in drawn]
    assert states == ["reserved"] * 2 + ["rejected"] * 4
    why = asked(types, f"seats show lots --why {drawn[2]}")
    assert (why["by"], why["place"], why["answered_as"], why["overtaking"]) == ("lottery", 3, 3, 0)


def read_documents(text):
    """Yield each JSON document in a text, however it is separated."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, at = decoder.raw_decode(text, at)
            yield found
        except ValueError:
            at += 1
        at = text.find("{", at)
