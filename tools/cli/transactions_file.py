"""A person's file of transactions: lines of JSON, CSV or Parquet, by its name and the options of the command."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from shared.publish import Publisher, Sent, read_csv, read_file, read_parquet

FileArgument = Annotated[
    Path,
    typer.Argument(
        exists=True,
        dir_okay=False,
        readable=True,
        metavar="FILE",
        help="Newline-delimited JSON, CSV (.csv), both plain or as .gz or .zst, or Parquet (.parquet).",
    ),
]
#: Where other jobs may take the place of the file.
FileOrJobs = Annotated[Path | None, *FileArgument.__metadata__]
DelimiterOption = Annotated[
    str | None, typer.Option("--csv", metavar="DELIMITER", help="The file is CSV with this delimiter; \\t is a tab.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(help="The names of the columns, with commas between: the file of CSV has no header.", metavar="NAMES"),
]
NumbersOption = Annotated[
    list[str] | None,
    typer.Option("--number", help="A column of CSV that is sent as JSON numbers; may be repeated.", metavar="COLUMN"),
]
_PACKED: Final = (".gz", ".zst")
#: Endings of the files that are converted.
_CSV, _PARQUET = ".csv", ".parquet"
#: The words of the library for a number that came as text, with the name of its field.
_NUMBER_AS_TEXT: Final = re.compile(r"^Expected `(?:int|float)[^`]*`, got `str` - at `\$\.([^`]+)`$")


@dataclass(frozen=True, slots=True)
class FileForm:
    """How the file is written, as far as its name does not say it."""

    delimiter: str | None = None
    columns: str | None = None
    numbers: tuple[str, ...] = ()

    def submit(self, publisher: Publisher, path: Path, file: IO[bytes], **about: Any) -> Sent:
        """Publish its transactions. Lines of JSON go as they are. The rows of a table become such lines first."""
        if self._find_kind(path):
            return publisher.submit_lines(lines=self.read(file, path), **about)
        return publisher.submit_file(file=file, **about)

    def read(self, file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
        """Return its transactions as numbered lines of JSON."""
        kind = self._find_kind(path)
        if kind == _CSV:
            names = None if self.columns is None else self.columns.split(",")
            given = "," if self.delimiter is None else self.delimiter.replace("\\t", "\t")
            try:
                return read_csv(file, delimiter=given, columns=names, numbers=self.numbers)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="--csv") from error
        return (read_parquet if kind == _PARQUET else read_file)(file)

    def remedy(self, path: Path, found: str) -> str:
        """Name the option for a column of CSV whose workload has a number where the file has text."""
        wrong = _NUMBER_AS_TEXT.search(found)
        is_csv = wrong is not None and self._find_kind(path) == _CSV
        return f" (--number {wrong.group(1)} sends this column as numbers)" if wrong and is_csv else ""

    def _find_kind(self, path: Path) -> str:
        """Return which table the file is, or nothing for lines of JSON."""
        name = path.name.lower()
        ending = Path(name.removesuffix(next(filter(name.endswith, _PACKED), ""))).suffix
        if self.delimiter is not None or ending == _CSV:
            return _CSV
        if self.columns is not None or self.numbers:
            raise typer.BadParameter(f"--columns and --number are for CSV: name the delimiter of {path.name} by --csv")
        return ending if ending == _PARQUET else ""


class CountedFile:
    """A file that says how many bytes were read of it, in any order: Parquet is read from its end, and by columns."""

    def __init__(self, file: IO[bytes], report: Callable[[int], object]) -> None:
        self._file, self._report = file, report

    def read(self, size: int = -1) -> bytes:
        """Read as the file does."""
        piece = self._file.read(size)
        self._report(len(piece))
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
