"""The dated page of a proof. It says what was found, and nothing that was not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tools.local.prove.site import Answer
from tools.local.prove.steps import BY_KEY, STEPS, Ended

_HOPED_FOR = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    began: datetime
    name: str
    region: str
    versions: dict[str, str]
    ended: Sequence[Ended]
    answers: Sequence[Answer]
    #: What something was there for, and what that costs by the prices file.
    hours: float
    cost: Decimal
    is_rehearsal: bool

    @property
    def failed(self) -> list[Ended]:
        """The steps with a fault."""
        return [one for one in self.ended if one.problem]

    @property
    def left_out(self) -> list[str]:
        """The steps that were not reached."""
        reached = {one.key for one in self.ended}
        return [one.key for one in STEPS if one.key not in reached]

    @property
    def is_right(self) -> bool:
        """True if every step was reached and went well, and no answer is other than hoped for."""
        return not self.failed and not self.left_out and all(one.is_right is not False for one in self.answers)


def render(report: Report) -> str:
    """Return the page."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    title = "A rehearsal, and no run on Azure" if report.is_rehearsal else "A run on Azure"
    yield f"# {title}: {report.began:%Y-%m-%d}\n"
    made = "make prove ARGS=--local" if report.is_rehearsal else "make prove"
    yield f"`{made}` wrote this at its end, and it holds for that day alone."
    if report.is_rehearsal:
        yield "Stand-ins answered for `az` and `azd`, and the local stack for Azure: no line here says anything of Azure."
    yield f"\n- began {report.began:%Y-%m-%d %H:%M} UTC, in {report.region}, as {report.name}"
    yield f"- versions: {', '.join(f'{name} {version}' for name, version in report.versions.items()) or 'not known'}"
    spent = f"{report.hours:.2f} hours that something was there, {report.cost:.4f} USD"
    yield f"- {spent} by the prices file: the bill says it a day later"
    failed = [one.key for one in report.failed]
    yield f"- failed: {', '.join(failed) or 'nothing'}; not reached: {', '.join(report.left_out) or 'nothing'}"
    yield "\n## Steps\n\n| step | what it does | seconds | found |\n| --- | --- | --- | --- |"
    for one in report.ended:
        step = BY_KEY[one.key]
        found = f"**failed**: {one.problem}. Then: {step.remedy}" if one.problem else "; ".join(one.said)
        yield f"| {one.key} | {_cell(step.what)} | {one.seconds:.0f} | {_cell(found)} |"
    if report.answers:
        yield "\n## Answers\n\n| question | as hoped for | found | by |\n| --- | --- | --- | --- |"
        for answer in report.answers:
            hoped = _HOPED_FOR[answer.is_right]
            yield f"| {_cell(answer.question)} | {hoped} | {_cell(answer.found)} | `{_cell(answer.command)}` |"
    yield ""


def _cell(text: str) -> str:
    """Return a text for a cell. What Azure prints may hold anything."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
