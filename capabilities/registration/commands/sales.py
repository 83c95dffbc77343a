"""`sluice conferences` and the sending half of `sluice orders`: what a shop, a customer and a bank send, typed by a person.

Each command sends one message to the queue of its kind, as programs do, so it needs the role of that sender alone. With
`--wait` it also reads the effect, which an operator may.
"""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from capabilities.registration.access_codes import CODE_LETTERS
from capabilities.registration.commands.orders import orders, print_document, print_seats
from capabilities.registration.commands.sending import Message, SendingDesk, open_desk
from capabilities.registration.http import describe_order
from capabilities.registration.order import OrderPhase, OrderState
from capabilities.registration.order_messages import PaymentOutcome
from tools.cli.options import JsonOption, SettingsOption, end

conferences = typer.Typer(
    help="Conferences: make one, change its prices, close it. `sluice seats show` has its seats.\n\nStatus: 0 done, 1 it was "
    "refused or is not closed yet, 2 the call makes no sense, 3 `--wait` ended first.",
    no_args_is_help=True,
)
#: Letters of a code that is drawn here: 100 bits.
_CODE_LENGTH: Final = 20
#: Letters of an id that is drawn here.
_ID_BYTES: Final = 6
_OFFER: Final = re.compile(r"([^=@]+)=([0-9]{1,9})@([0-9.]+)")
_WANTED: Final = re.compile(r"([^=@]+)=([0-9]{1,9})")
_OPEN: Final = frozenset({OrderPhase.HELD, OrderPhase.PLACED})

ConferenceArgument = Annotated[str, typer.Argument(help="The conference.", metavar="CONFERENCE")]
IdOption = Annotated[str, typer.Option("--id", help="The message's id, by which it counts once; else a drawn one.")]
WaitOption = Annotated[
    float,
    typer.Option("--wait", min=0, max=3600, help="Seconds to wait for the effect; 0: only send.", metavar="SECONDS"),
]


@conferences.command("create")
def create_conference(  # noqa: PLR0913 - each option of the command is an argument
    conference: ConferenceArgument,
    seats: Annotated[list[str], typer.Argument(help="Each seat type, as TYPE=QUOTA@PRICE: whole=20@500.00.")],
    id_: IdOption = "",
    wait: WaitOption = 0.0,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Make a conference, or change its prices. A quota counts for a new seat type only."""
    offers = {
        name: {"price": price, "quota": int(quota)} for name, quota, price in _parse(_OFFER, seats, "whole=20@500.00")
    }
    message = Message("conference", {"id": id_ or _draw("c"), "conference": conference, "seats": offers})
    _manage(message, wait, settings, as_json=as_json)


@conferences.command("close")
def close_conference(
    conference: ConferenceArgument,
    id_: IdOption = "",
    wait: WaitOption = 0.0,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Take every seat that is free out of the sale.

    Seats that are reserved stay with their orders. Those of an order that expires come back and are for sale: with
    `--wait` the status is 1 while there are any, and the same command later takes them out.
    """
    found = _manage(
        Message("close_conference", {"id": id_ or _draw("x"), "conference": conference}),
        wait,
        settings,
        as_json=as_json,
    )
    reserved = sum(numbers["reserved"] for numbers in found["types"].values()) if found else 0
    if reserved:
        end(
            f"conference {conference!r} is not closed yet: {reserved} seats are reserved. Close it again when they have ended"
        )


@orders.command("place")
def place_order(  # noqa: PLR0913, PLR0917 - each option of the command is an argument
    conference: ConferenceArgument,
    seats: Annotated[list[str], typer.Argument(help="The seats, as TYPE=NUMBER: whole=2.")],
    order: Annotated[str, typer.Option(help="The order's id; else a drawn one.")] = "",
    access_code: Annotated[str, typer.Option(help="A code of your own, instead of one that is drawn here.")] = "",
    gate: Annotated[str | None, typer.Option(help="The gate that it waits behind.")] = None,
    wait: WaitOption = 0.0,
    settings: SettingsOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Place an order for seats, and print its access code, this once.

    The code is drawn on this machine, and Sluice keeps a salted hash of it. The same order with the same code counts once.
    """
    named, code = order or _draw("o"), access_code or "".join(secrets.choice(CODE_LETTERS) for _ in range(_CODE_LENGTH))
    wanted = {name: int(number) for name, number in _parse(_WANTED, seats, "whole=2")}
    fields = {"order": named, "conference": conference, "seats": wanted, "access_code": code}
    message = Message("place_order", fields | ({"gate": gate} if gate else {}))
    kept = {"order": named, "access_code": code}

    def answered(desk: SendingDesk) -> OrderState | None:
        found = desk.find(named)
        return found if found and (found.phase not in _OPEN or (gate and found.phase is OrderPhase.HELD)) else None

    message.check()
    if not as_json:
        # Before it is sent: else a command that is killed would take the code with it.
        print_document(kept, as_json=False)
        typer.echo("keep the access code: neither Sluice nor an operator can print it again", err=True)
    with open_desk(settings) as desk:
        found = desk.send(message, wait, answered)
    _tell_order(kept, found, as_json=as_json)
    if found and found.phase is OrderPhase.REJECTED:
        end(f"order {named!r} was rejected: {found.reason}")


@orders.command("pay")
def pay_order(  # noqa: PLR0913 - each option of the command is an argument
    order: Annotated[str, typer.Argument(help="The id of the order.", metavar="ORDER")],
    amount: Annotated[str, typer.Option(help="The whole amount, such as 1000.00.", metavar="AMOUNT")],
    id_: Annotated[str, typer.Option("--id", help="The bank's id of the payment: the same one counts once.")],
    wait: WaitOption = 0.0,
    settings: SettingsOption = None,
    *,
    rejected: Annotated[bool, typer.Option("--rejected", help="The payment failed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Tell of a payment, as a bank does. The exact total of the reserved seats confirms the order.

    Any other payment is kept as unsettled, for a person: with `--wait` the status is then 1.
    """
    outcome = PaymentOutcome.REJECTED if rejected else PaymentOutcome.COMPLETED
    message = Message("payment", {"id": id_, "order": order, "outcome": outcome.value, "amount": amount})

    def settled(desk: SendingDesk) -> OrderState | None:
        found = desk.find(order)
        if rejected or found is None:
            return found
        has_paid = found.paid is not None and found.paid.id == id_ and found.phase is OrderPhase.CONFIRMED
        return found if _why_unsettled(found, id_) or (has_paid and desk.has_ended(found)) else None

    with open_desk(settings) as desk:
        found = desk.send(message, wait, settled)
    if not as_json:
        print_document({"order": order, "id": id_}, as_json=False)
    _tell_order({"order": order, "id": id_}, found, as_json=as_json)
    if found and (why := _why_unsettled(found, id_)):
        end(f"payment {id_!r} confirms nothing ({why}): it is kept as unsettled, a person gives the money back")


def _manage(message: Message, wait: float, settings: Path | None, *, as_json: bool) -> dict[str, Any] | None:
    """Send a message about a conference, and print its seats if the command waits."""
    conference, id_ = message.fields["conference"], message.fields["id"]
    with open_desk(settings) as desk:
        found: dict[str, Any] | None = desk.send(message, wait, lambda one: one.stores.tell_seats(conference))
    if as_json:
        typer.echo(json.dumps({"conference": conference, "id": id_, "now": found}))
        return found
    print_document({"conference": conference, "id": id_}, as_json=False)
    if found:
        print_seats(found)
    return found


def _tell_order(sent: Mapping[str, str], found: OrderState | None, *, as_json: bool) -> None:
    now = describe_order(found) if found else None
    if as_json:
        typer.echo(json.dumps({**sent, "now": now}))
    elif now:
        print_document(now, as_json=False)


def _why_unsettled(order: OrderState, payment: str) -> str:
    return next((one.reason for one in order.unsettled if one.id == payment), "")


def _parse(form: re.Pattern[str], given: Sequence[str], like: str) -> list[tuple[str, ...]]:
    """Return the parts of each argument of this form."""
    found = [form.fullmatch(one) for one in given]
    for text, one in zip(given, found, strict=True):
        if one is None:
            raise typer.BadParameter(f"{text!r} is not of the form {like}")
    parts = [one.groups() for one in found if one]
    if len({name for name, *_ in parts}) < len(parts):
        raise typer.BadParameter("a seat type is there twice")
    return parts


def _draw(letter: str) -> str:
    return f"{letter}-{secrets.token_hex(_ID_BYTES)}"
