"""Puts an operator's rules in force, audited."""

from shared.concurrency import Rules, RulesBlob, parse
from shared.operating.audit import ActKey, AuditedAct, AuditTable


def put_rules(  # noqa: PLR0913 - each is a part of the command
    rules: RulesBlob,
    audit: AuditTable,
    text: str,
    *,
    by: str,
    why: str = "",
    seen: str | None = None,
    named: ActKey | None = None,
) -> Rules:
    """Put rules in force and return them. The next tick with an open job follows them.

    `seen`: see RulesBlob.put. `named`: see AuditTable.record.
    """
    wanted = parse(text)
    with audit.record(AuditedAct(by, "rules put", f"version {wanted.version}", why), named) as command:
        rules.put(text, seen)
        command.result = "in force"
    return wanted
