"""Messages that were written once stay readable for ever: they may lie behind a closed gate while the code moves on."""

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from shared.payload import Intake, Limits, open_envelope, read_submission
from shared.payload.transactions import Reader, amounts_reader
from tests.payload.fetching import fetch

LIMITS = Limits()
DEADLINE = datetime(2026, 11, 21, 6, tzinfo=UTC)
GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


@pytest.mark.parametrize("file", GOLDEN, ids=[file.stem for file in GOLDEN])
def test_an_old_message_is_still_read(file, stores, container):
    """Every form of every version, byte for byte as it was sent and stored then."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    for name, content in kept["blobs"].items():
        container.upload_blob(name, base64.b64decode(content))
    body = json.dumps(kept["message"], ensure_ascii=False)
    submission = read_submission(open_envelope(body, LIMITS), "id", LIMITS)
    payload = Intake("", stores, LIMITS).take(submission)
    found, amounts = [], []
    for _, text in fetch(Intake("", stores, LIMITS), payload):
        lines = text.split(b"\n")[:-1]
        found += Reader(dict, ("amount",)).read(lines).transactions
        amounts += [one.amount_0 for one in amounts_reader(("amount",), LIMITS).read(lines).transactions]
    assert found == [{"id": number, "amount": f"{number}.10", "name": "Käse ☃"} for number in range(1, 8)]
    assert sum(amounts) == submission.declared.sums["amount"] == Decimal("28.70")
    assert submission.job == "golden-1"
    assert submission.deadline == (DEADLINE if file.stem == "v1-deadline" else None)


def test_every_form_is_kept():
    """The list of old messages is not empty by mistake."""
    assert {file.stem for file in GOLDEN} >= {
        "v1-items",
        "v1-deadline",
        "v1-inline-zstd",
        "v1-inline-gzip",
        "v1-blob",
        "v1-blob-index-apart",
    }
