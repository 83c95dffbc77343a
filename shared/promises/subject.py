"""The workload under trial: fresh for each trial, its outcome for some lines, and its outcome in another process."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from shared.pipeline import SHARDS
from shared.telemetry import contain
from shared.versions import convert, decode
from shared.workloads import AnyWorkload, Total, Workloads, complete, has_lines, has_split, items_of, run_lines, split

#: Neither the command nor a test has other jobs: any number serves.
FIRST_NUMBER: Final = 1


class TrialOutcome(Struct, frozen=True):
    """All that a workload makes of some lines, as JSON."""

    partial: bytes
    finished: list[bytes]
    #: The lines of its accepted transactions.
    lines: bytes = b""
    cuts: list[bytes] = []


@dataclass(frozen=True, slots=True)
class Subject:
    """A workload. `make` returns an object of it that no other trial has used, as far as it can be copied."""

    make: Callable[[], AnyWorkload]
    #: `module:Class`, for another process.
    name: str
    settings: Mapping[str, str]
    #: The other process, if the workload can be loaded there.
    elsewhere: "Elsewhere | None" = None

    @classmethod
    def of(cls, workload: AnyWorkload) -> Self:
        """Return the subject of an object."""
        kind = type(workload)
        return cls(lambda: complete(_copy(workload)), f"{kind.__module__}:{kind.__qualname__}", {})

    @classmethod
    def load(cls, name: str, settings: Mapping[str, str]) -> Self:
        """Return the subject of an entry of `SLUICE_WORKLOADS`."""
        return cls(lambda: _load(name, settings), name, settings)

    def run(self, lines: Sequence[bytes], workload: AnyWorkload | None = None) -> Any:
        """Return the partial of the lines, after making those that the workload makes of them."""
        return self._run(lines, workload or self.make())[0]

    def _run(self, lines: Sequence[bytes], user: AnyWorkload) -> tuple[Any, bytes]:
        made = bytearray()

        def emit(text: bytes, _items: int) -> None:
            made.extend(text)

        ran = run_lines(user, lines, FIRST_NUMBER, emit if has_lines(user) else None)
        return ran.partial, bytes(made)

    def store(self, lines: Sequence[bytes], workload: AnyWorkload | None = None) -> bytes:
        """Return the partial of the lines in its stored form."""
        return msgspec.json.encode(self.run(lines, workload))

    def read(self, partial: bytes) -> Any:
        """Return a stored partial as an object of its own."""
        return decode(partial, self.make().partial)

    def merge(self, *partials: bytes) -> bytes:
        """Return stored partials merged from left to right."""
        workload = self.make()
        with contain():
            return msgspec.json.encode(reduce(workload.merge, map(self.read, partials)))

    def finish(self, partial: bytes, workload: AnyWorkload | None = None) -> list[Any]:
        """Return the totals and lines of a stored partial."""
        return list(items_of(workload or self.make(), self.read(partial)))

    def cut(self, partial: bytes, workload: AnyWorkload | None = None) -> list[bytes]:
        """Return a stored partial in cuts."""
        found = split(workload or self.make(), self.read(partial), SHARDS)
        return [msgspec.json.encode(one) for one in found]

    def outcome(self, lines: Sequence[bytes], workload: AnyWorkload | None = None) -> TrialOutcome:
        """Return the outcome of the lines, by one object."""
        user = workload or self.make()
        found, made = self._run(lines, user)
        partial = msgspec.json.encode(found)
        finished = _or_error(lambda: [as_json(one) for one in self.finish(partial, user)])
        cuts = _or_error(lambda: self.cut(partial, user)) if has_split(user) else []
        return TrialOutcome(partial, finished, made, cuts)

    def is_same(self, left: bytes, right: bytes) -> bool:
        """Check whether two stored partials have the same value."""
        # As plain JSON too: a Struct may be declared without a comparison.
        return left == right or json_of(left) == json_of(right) or bool(self.read(left) == self.read(right))


def _or_error(call: Callable[[], list[bytes]]) -> list[bytes]:
    """Return its result. A failure that is the same everywhere is no difference: another promise is about it."""
    try:
        with contain():
            return call()
    except Exception as error:  # noqa: BLE001 - the user's code, which may raise anything
        return [f"{type(error).__name__}: {error}".encode()]


def json_of(text: bytes) -> Any:
    """Return a document as plain values."""
    return msgspec.json.decode(text)


def as_json(item: Any) -> bytes:
    """Return a total or a line of the output as JSON."""
    return msgspec.json.encode([item.account, item.properties] if isinstance(item, Total) else item.content)


def _copy(workload: AnyWorkload) -> AnyWorkload:
    try:
        return copy.deepcopy(workload)
    except Exception:  # noqa: BLE001 - the user's object, which may refuse it by any error
        return workload


def _load(name: str, settings: Mapping[str, str]) -> AnyWorkload:
    loaded = Workloads.load(name, settings)
    return loaded.find(next(iter(loaded)))


class Elsewhere:
    """A second process with another random seed of hashes, which loads the workload by its name and runs lines."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        #: `-R`: strings get other hashes there, even where the environment fixes those of this process.
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import answer; answer()"
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-R", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            self._ask([name, dict(settings)])
        except BaseException:
            self.close()
            raise

    def outcome(self, lines: Sequence[bytes]) -> TrialOutcome:
        """Return the outcome of the lines in that process."""
        return convert(self._ask(list(lines)), TrialOutcome)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _ask(self, question: Any) -> Any:
        sent, answered = self._process.stdin, self._process.stdout
        if sent is None or answered is None:
            raise RuntimeError("the second process has no pipes")
        sent.write(msgspec.json.encode(question) + b"\n")
        sent.flush()
        reply = msgspec.json.decode(answered.readline() or b'{"problem":"it ended"}')
        if "problem" in reply:
            raise RuntimeError(reply["problem"])
        return reply


def answer() -> None:
    """Answer from the standard input: first the name of the workload and settings, then lines, again and again."""
    # All that the workload prints goes to standard error.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for reply in _answers(sys.stdin.buffer):
        replies.write(msgspec.json.encode(reply) + b"\n")
        replies.flush()


def _answers(questions: Any) -> Iterator[Any]:
    subject = None
    for question in questions:
        try:
            with contain():
                if subject is None:
                    subject = Subject.load(*decode(question, tuple[str, dict[str, str]]))
                    subject.make()
                    yield {}
                else:
                    yield subject.outcome(decode(question, list[bytes]))
        except Exception as error:  # noqa: BLE001 - the user's code, which may raise anything
            yield {"problem": f"{type(error).__name__}: {error}"}
