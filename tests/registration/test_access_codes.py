"""Access codes: told to nobody by content, stored as salted hashes alone, checked with the same work for all."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from capabilities.registration.access_codes import ACCESS_CODE, KEPT, AccessCodes, CodeHash, derive_code, hash_own

OWN = "my own code!"


class StillClock:
    """A clock that a test moves."""

    ran = 0.0

    def now(self):
        """Return a time of day that nothing here depends on."""
        return datetime(2026, 11, 22, tzinfo=UTC)

    def monotonic(self):
        """Return the seconds that ran."""
        return self.ran


@pytest.fixture
def clock():
    """A clock that stands still."""
    return StillClock()


@pytest.fixture
def codes(clock):
    """The codes of one process."""
    return AccessCodes(clock)


def test_a_made_code_has_ten_characters_that_people_do_not_mistake():
    """50 bits: orders have numbers in sequence, so the code alone is the secret."""
    made = [derive_code(b"a key", f"order-{n}", "content") for n in range(200)]
    assert all(len(code) == 10 and ACCESS_CODE.fullmatch(code) for code in made)
    assert len(set(made)) == len(made)
    assert set("".join(made)) == set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_another_key_order_or_content_has_another_code():
    """Who knows one code derives no other one, and who knows an order does not know its code."""
    made = {derive_code(key, order, content) for key in (b"k", b"l") for order in ("a", "b") for content in ("x", "y")}
    assert len(made) == 8
    assert derive_code(b"k", "a", "x") in made


def test_a_message_without_a_code_makes_an_order_that_no_code_opens(codes):
    """Its repetition is the same request, and is told no code."""
    made = codes.make("o", "content", None)
    assert (made.code, codes.repeat("o", "content", None, made.fields)) == ("", "")
    for tried in ("", "0" * 64, "00000000", OWN):
        assert not codes.verify("o", tried, lambda: made.fields)
        assert codes.repeat("o", "content", tried, made.fields) is None


def test_an_order_of_a_version_before_keeps_its_code_and_tells_it_nobody(codes):
    """That version derived it from the content: whoever repeated the content was told the code."""
    before = {**codes.make("o", "content", "MADEBEFORE").fields, "code_key": 3}
    assert codes.verify("o", "MADEBEFORE", lambda: before)
    assert codes.repeat("o", "content", "MADEBEFORE", before) == "MADEBEFORE"
    assert codes.repeat("o", "content", "ANOTHERONE", before) is None
    assert codes.repeat("o", "content", None, before) == ""


def test_a_hash_that_was_kept_in_place_of_a_code_places_the_same_order(codes):
    """The sender's code opens it, and the sender's own message is the same request."""
    kept = hash_own("o", "content", OWN)
    made = codes.make("o", "content", kept)
    assert made.code == ""
    assert codes.verify("o", OWN, lambda: made.fields)
    assert codes.repeat("o", "content", OWN, made.fields) == OWN
    assert codes.repeat("o", "content", kept, codes.make("o", "content", OWN).fields) == ""


@pytest.mark.parametrize("fields", [{"code_hash": "00" * 32}, {"code_salt": "00" * 16}])
def test_a_hash_of_another_code_is_another_request(codes, fields):
    """So is one whose salt is another: nothing tells whether its code is the same."""
    stored = codes.make("o", "content", OWN).fields
    assert codes.repeat("o", "content", hash_own("o", "content", OWN), {**stored, **fields}) is None
    assert codes.repeat("o", "content", CodeHash("00" * 32), stored) is None


def test_the_senders_own_code_opens_its_order(codes):
    """And no made one does."""
    made = codes.make("o", "content", OWN)
    assert made.code == OWN
    assert codes.repeat("o", "content", OWN, made.fields) == OWN
    assert codes.verify("o", OWN, lambda: made.fields)


@pytest.mark.parametrize(("first", "then"), [(OWN, None), (None, OWN), (OWN, OWN + "x")])
def test_a_repeated_request_with_another_code_is_another_request(codes, first, then):
    """The content's hash leaves the code out, so only this tells them apart."""
    assert codes.repeat("o", "content", then, codes.make("o", "content", first).fields) is None


def test_what_is_stored_holds_no_code(codes):
    """Neither as text nor as a hash without salt, and two orders of one code look different, also of the same content."""
    one, two, three = (codes.make(*about, OWN) for about in (("a", "x"), ("b", "x"), ("a", "y")))
    assert len({made.fields["code_hash"] for made in (one, two, three)}) == 3
    assert OWN not in repr(hash_own("a", "x", OWN))
    assert hash_own("a", "x", OWN).hash not in repr(hash_own("a", "x", OWN))
    for made in (one, codes.make("c", "content", OWN + "2")):
        stored = json.dumps(made.fields)
        assert made.code not in stored
        assert made.code.encode().hex() not in stored
        assert hashlib.sha256(made.code.encode()).hexdigest() not in stored


def test_a_code_is_not_in_the_text_of_its_object(codes):
    """A log line of a failed call would have it."""
    made = codes.make("o", "content", OWN)
    assert OWN not in repr(made)
    assert made.fields["code_hash"] not in repr(made)


@pytest.mark.parametrize("wrong", ["", "x", OWN[:-1], OWN + "x", OWN.upper(), "\ud800" * 8, "x" * 10_000])
def test_a_wrong_code_opens_nothing(codes, wrong):
    """However long or strange it is."""
    made = codes.make("o", "content", OWN)
    assert not codes.verify("o", wrong, lambda: made.fields)


def test_a_code_that_only_begins_like_the_longest_one_opens_nothing(codes):
    """Work is bounded by the length of a legal code, and what is cut off counts."""
    longest = "x" * 64
    made = codes.make("o", "content", longest)
    assert codes.verify("o", longest, lambda: made.fields)
    assert not codes.verify("o", longest + "x", lambda: made.fields)


def test_a_code_of_another_order_opens_nothing(codes):
    """Also while it is known to be right for its own."""
    made = codes.make("a", "content", OWN)
    other = codes.make("b", "content", OWN + "2")
    assert codes.verify("a", OWN, lambda: made.fields)
    assert not codes.verify("b", OWN, lambda: other.fields)


def test_an_unknown_order_takes_the_work_of_a_known_one(codes, monkeypatch):
    """One hash either way, with the same cost: else the time would tell which orders exist."""
    costs = []
    real = hashlib.scrypt
    monkeypatch.setattr(hashlib, "scrypt", lambda *args, **kw: costs.append((kw["n"], kw["r"])) or real(*args, **kw))
    made = codes.make("o", "content", OWN)
    del costs[:]
    assert not codes.verify("o", "wrong code", lambda: made.fields)
    assert not codes.verify("unknown", "wrong code", lambda: None)
    assert costs == [(2**10, 8)] * 2


def test_a_right_pair_is_believed_for_a_minute_and_read_again_after_it(codes, clock):
    """Of the reads of a customer who waits, one costs a hash and a read of the head."""
    made = codes.make("o", "content", OWN)
    reads = []

    def find():
        reads.append(1)
        return made.fields

    assert codes.verify("o", OWN, find)
    clock.ran += KEPT.total_seconds() - 0.001
    assert codes.verify("o", OWN, find)
    assert len(reads) == 1
    clock.ran += 0.001
    assert codes.verify("o", OWN, find)
    assert len(reads) == 2


def test_a_wrong_pair_is_not_kept(codes):
    """An order that is placed a moment later opens at once."""
    assert not codes.verify("o", OWN, lambda: None)
    made = codes.make("o", "content", OWN)
    assert codes.verify("o", OWN, lambda: made.fields)


def test_a_process_keeps_no_code_in_memory(codes):
    """A dump of its memory between two requests holds hashes."""
    made = codes.make("o", "content", OWN)
    codes.verify("o", OWN, lambda: made.fields)
    assert OWN not in repr(vars(codes))


def test_the_pairs_that_are_kept_are_bounded(codes, monkeypatch):
    """Orders of a whole day would fill the memory."""
    monkeypatch.setattr("capabilities.registration.access_codes._MOST_KEPT", 3)
    made = codes.make("o", "content", OWN)
    for n in range(7):
        assert codes.verify(f"o{n}", OWN, lambda: made.fields)
        assert len(codes._right) <= 3
