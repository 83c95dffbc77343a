"""The checks of `sluice submit` before it sends. One that was not possible is reported, and stops nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

import typer

from shared.app import Stores
from shared.errors import RefusedError, StorageUnavailableError, UnknownWorkloadError
from shared.gate import GateState
from shared.grammar import room_job, room_of, texts
from shared.ledger import SEALED, TOMBSTONES, Collision, Job, judge
from shared.payload import Limits, Stretched, Submission, fingerprints_of, open_envelope, read_submission, reader_of
from shared.publish import CHECKED_FIRST
from shared.refusals import Reason
from shared.workloads import AnyWorkload, Workloads
from tools.cli.moments import show_moment
from tools.cli.options import PROBLEM_FOUND
from tools.cli.settings_file import add_app_to_path
from tools.cli.transactions_file import FileForm

_WORKLOADS: Final = "SLUICE_WORKLOADS"


def say(words: str) -> None:
    """Tell a person, beside the output."""
    typer.echo(f"sluice: {words}", err=True)


@contextmanager
def _if_possible(what: str) -> Iterator[None]:
    try:
        yield
    except StorageUnavailableError as error:
        say(f"not checked: {what}: {error}")


def check_gate(stores: Stores, gate: str) -> None:
    """Say if a gate was never used: perhaps it is misspelt, and the job would wait until it is opened."""
    with _if_possible(f"whether gate {gate!r} is known"):
        if stores.gates.read(gate) == GateState():
            say(
                f"gate {gate!r} was never opened or closed: the job waits until `sluice gate open {gate}` "
                "(check the spelling)"
            )


def check_workload(
    settings: Mapping[str, str], file: Path | None, workload: str, sums: Sequence[str]
) -> AnyWorkload | None:
    """Say what the app will refuse, by the workloads that its settings name. Return this one, if it can be had."""
    what = f"not checked: whether the app has workload {workload!r} and adds up {', '.join(sums) or 'no sum'}"
    if not settings.get(_WORKLOADS):
        say(f"{what}: these settings have no {_WORKLOADS}")
        return None
    add_app_to_path(file)
    try:
        known = Workloads.load(settings[_WORKLOADS], settings)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code, which may raise anything
        say(f"{what}: {type(error).__name__}: {error}")
        return None
    try:
        found = known.find(workload)
    except UnknownWorkloadError as error:
        say(f"the app will park this submission until it has the workload: {error}")
        return None
    if unknown := sorted(set(sums) - set(found.sums)):
        say(
            f"the app will refuse this submission: workload {workload} adds up {', '.join(found.sums) or 'nothing'}, "
            f"not {', '.join(unknown)}"
        )
    return found


def check_fit(workload: AnyWorkload | None, form: FileForm, path: Path | None) -> None:
    """Read the first lines of a file as the workload will. End the command if none fits, and say how many do not.

    The publisher names a line that is no transaction at all.
    """
    if workload is None or path is None or not path.is_file():
        # What is no file, such as a pipe, is read once.
        return
    with path.open("rb") as file, suppress(RefusedError):
        numbered = list(islice(form.read(file, path), CHECKED_FIRST))
        reader = reader_of(workload.transaction, workload.sums)  # type: ignore[arg-type]  # a class has a hash
        refused = reader.read([line for _, line in numbered]).refused
        if {one.reason for one in refused} != {Reason.DOES_NOT_FIT.value}:
            return
        first = f"line {numbered[refused[0].place][0]}: {refused[0].found}{form.remedy(path, refused[0].found)}"
        if len(refused) < len(numbered):
            say(
                f"{len(refused):,} of the first {len(numbered):,} lines do not fit workload {workload.name!r}, which will "
                f"reject them. {first}"
            )
            return
        say(
            f"nothing was sent: none of the first {len(numbered):,} lines fits workload {workload.name!r}. {first}. Mend the "
            "file, name another --workload, or send it as it stands with --no-fit"
        )
        raise typer.Exit(PROBLEM_FOUND)


class SameJob:
    """Compares a submission with the job that has its id, as the app will. One request."""

    def __init__(self, stores: Stores, room: str, *, is_needed: bool) -> None:
        """`is_needed`: the caller waits for this job, so a ledger that cannot be read is an error."""
        self._stores, self._room, self._is_needed = stores, room, is_needed
        #: The job that was accepted from the same content before, and the hashes of the content.
        self.known: Job | None = None
        self.hashes: tuple[str, ...] = ()

    def __call__(self, body: bytes) -> None:
        """End the command if the app would refuse the message for its content."""
        limits = Limits()
        submission = read_submission(open_envelope(body, limits), "", limits)
        self.hashes = fingerprints_of(submission) or ()
        job = room_job(self._room, submission.job)
        if self._is_needed:
            self.known = self._stores.ledger.read(job)
        else:
            with _if_possible(f"whether job {job!r} has other content"):
                self.known = self._stores.ledger.read(job)
        is_stretched = isinstance(submission.content, Stretched)
        if is_stretched and self.known is not None and self.known.state in SEALED:
            say(
                f"nothing was sent: job {job} is {self.known.state.value} and takes no more stretches; send it under another "
                "id (--job)"
            )
            raise typer.Exit(PROBLEM_FOUND)
        is_whole = is_stretched and self.known is not None and self.known.plan is not None and not self.known.stretches
        if self.known is not None and (is_whole or self._is_conflict(self.known)):
            say(describe_conflict(self.known, submission))
            raise typer.Exit(PROBLEM_FOUND)

    def _is_conflict(self, known: Job) -> bool:
        return bool(self.hashes) and judge(known, *self.hashes).collision is Collision.CONFLICT


def describe_conflict(known: Job, submission: Submission) -> str:
    """Return the differences between a job and another submission of its id, and what to do."""
    differing = "; ".join(_differences(known, submission)) or "its transactions, or how they are packed"
    return (
        f"nothing was sent: job {known.job} exists with other content. It was accepted at "
        f"{show_moment(known.accepted_at)} UTC and is {known.state.value}. Differing: {differing}. "
        "Send it under another id (--job), or look at that one: "
        f"sluice jobs show {known.job}"
    )


def _differences(known: Job, submission: Submission) -> Iterator[str]:
    items = submission.declared.items
    if known.workload != submission.workload:
        yield f"its workload is {known.workload}, this is for {submission.workload}"
    if known.items and items is not None and known.items != items:
        yield f"it has {known.items:,} transactions, this has {items:,}"
    if known.state in TOMBSTONES:
        # Its row keeps no more.
        return
    theirs_first, ours_first = known.waits, tuple(room_job(room_of(known.job), name) for name in submission.waits)
    if theirs_first != ours_first:
        yield f"it waits for {', '.join(theirs_first) or 'none'}, this for {', '.join(ours_first) or 'none'}"
    if known.gate != submission.gate:
        yield f"its gate is {known.gate or 'none'}, this names {submission.gate or 'none'}"
    theirs, ours = texts(known.declared), texts(submission.declared.sums)
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            yield f"its declared sum of {name} is {theirs.get(name, 'none')}, this has {ours.get(name, 'none')}"
