"""Judges a job of `tests.benchmarks.work` by its published files alone. Imports nothing of Sluice, and no sum of its ledger.

python -m tests.benchmarks.work_checker STORAGE FOLDER PREFIX ITEMS     (prints what it found as JSON)
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
import zstandard
from azure.storage.blob import BlobServiceClient, ContainerClient

CONTAINER = "outputs"
#: What `account_of` and `quantity_of` put into a transaction.
_ACCOUNT = "account-"


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found in the lines of a job."""

    lines: int
    #: Transactions that have a line, and lines of a transaction that has one already.
    found: int
    twice: int
    #: Lines whose content is not that of their transaction.
    wrong: int
    #: Ids that are not one behind the other, as the transactions are.
    out_of_place: int
    parts: int

    def breaches(self, items: int) -> list[str]:
        """Return what is wrong, in words."""
        said = [
            (self.found != items, f"{items - self.found:,} of {items:,} transactions have no line"),
            (self.twice > 0, f"{self.twice:,} lines are of a transaction that has one already"),
            (self.wrong > 0, f"{self.wrong:,} lines are not what was sent"),
            (self.out_of_place > 0, f"{self.out_of_place:,} lines have the number of another transaction"),
        ]
        return [text for is_wrong, text in said if is_wrong]


class _Row(msgspec.Struct):
    account: str
    quantity: str
    number: int | None = None


def account_of(number: int) -> str:
    """Return the account of a transaction, which no other has."""
    return f"{_ACCOUNT}{number:08d}"


def number_of(account: str) -> int:
    """Return the transaction of an account."""
    return int(account.removeprefix(_ACCOUNT))


def quantity_of(number: int) -> str:
    """Return the quantity of a transaction."""
    return f"{number % 1000}.25"


def amount_of(number: int) -> Decimal:
    """Return what that costs on the plan `basic`, rounded half to even: the first 100 units, those up to 1,000, the rest."""
    whole = Decimal(quantity_of(number))
    first, second = min(whole, Decimal(100)), max(min(whole, Decimal(1000)) - 100, Decimal(0))
    rest = max(whole - 1000, Decimal(0))
    price = first * Decimal("0.05") + second * Decimal("0.035") + rest * Decimal("0.02")
    return price.quantize(Decimal("0.01"), ROUND_HALF_EVEN)


def judge(storage: str, folder: str, prefix: str, items: int) -> Judged:
    """Read every line of the files in a folder whose names begin so."""
    seen, lines, twice, wrong, base, out_of_place, parts = bytearray(items), 0, 0, 0, None, 0, 0
    decode = msgspec.json.Decoder(_Row).decode
    with BlobServiceClient.from_connection_string(storage) as service:
        container = service.get_container_client(CONTAINER)
        for name in sorted(container.list_blob_names(name_starts_with=f"{folder}/{prefix}")):
            parts += 1
            for line in lines_of(container, name):
                row = decode(line)
                at, lines = number_of(row.account), lines + 1
                twice, seen[at] = twice + seen[at], 1
                wrong += row.quantity != quantity_of(at)
                if row.number is not None:
                    base = row.number - at if base is None else base
                    out_of_place += row.number - at != base
    return Judged(lines, sum(seen), twice, wrong, out_of_place, parts)


def lines_of(container: ContainerClient, name: str) -> Iterator[bytes]:
    """Yield the lines of one file, which may be several frames of zstd one behind the other."""
    rest = b""
    packed = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    for piece in container.download_blob(name, decompress=False).chunks():
        *whole, rest = (rest + packed.decompress(piece)).split(b"\n")
        yield from whole
    if rest:
        raise ValueError(f"{name} ends within a line")


def main(storage: str, folder: str, prefix: str, items: str) -> None:
    """Print what was found."""
    sys.stdout.write(json.dumps(asdict(judge(storage, folder, prefix, int(items)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
