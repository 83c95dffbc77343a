"""Access codes: derived again for the same request, stored as salted hashes alone, checked with the same work for all."""

import hashlib
import itertools
import json
from datetime import UTC, datetime

import pytest

from shared.errors import ContentionError, StorageUnavailableError
from shared.registration.access_codes import ACCESS_CODE, KEPT, AccessCodes, CodeHash, hash_own
from shared.registration.code_keys import KEYS_KEPT, CodeKeys
from tests.ids.memory_store import MemoryStore

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


def counting():
    """Return a source of bytes that never gives the same ones twice."""
    numbers = itertools.count(1)
    return lambda length: hashlib.shake_256(str(next(numbers)).encode()).digest(length)


@pytest.fixture
def store():
    """The blob of the keys."""
    return MemoryStore("settings/access-code-keys")


@pytest.fixture
def clock():
    """A clock that stands still."""
    return StillClock()


@pytest.fixture
def codes(store, clock):
    """The codes of one process."""
    return AccessCodes(CodeKeys(store, counting(), clock), clock)


def other_process(store):
    """Return the codes of a process that started later."""
    clock = StillClock()
    return AccessCodes(CodeKeys(store, counting(), clock), clock)


def keys_of(store, clock, random=None):
    """Return the keys of a process."""
    return CodeKeys(store, random or counting(), clock)


def test_a_made_code_has_ten_characters_that_people_do_not_mistake(codes):
    """50 bits: orders have numbers in sequence, so the code alone is the secret."""
    made = [codes.make(f"order-{n}", "content", None).code for n in range(200)]
    assert all(len(code) == 10 and ACCESS_CODE.fullmatch(code) for code in made)
    assert len(set(made)) == len(made)
    assert set("".join(made)) == set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_the_same_request_gets_the_same_code_from_every_process(codes, store):
    """Although nobody stored it: an answer that was lost can be asked for again."""
    made = codes.make("o", "content", None)
    assert other_process(store).repeat("o", "content", None, made.fields) == made.code


def test_another_order_or_another_content_has_another_code(codes):
    """Who knows one code derives no other one."""
    made = {codes.make(order, content, None).code for order in ("a", "b") for content in ("x", "y")}
    assert len(made) == 4


def test_a_new_key_leaves_the_codes_of_earlier_orders(codes, store, clock):
    """Orders keep the number of their key: the same request gets the same answer. New ones take the newest key."""
    before = codes.make("o", "content", None)
    assert keys_of(store, clock, lambda length: b"new" * 10 + bytes(length - 30)).add() == 2
    late = other_process(store)
    after = late.make("o", "content", None)
    assert (before.fields["code_key"], after.fields["code_key"]) == (1, 2)
    assert before.code != after.code
    assert late.repeat("o", "content", None, before.fields) == before.code
    # The process that read the keys before reads them again when an order names the new one.
    assert codes.repeat("o", "content", None, after.fields) == after.code


def test_a_running_process_takes_a_new_key_within_minutes(codes, store, clock):
    """A rotation because of a leak does not wait for restarts, and costs a request each five minutes."""
    reads, read = [], store.read
    store.read = lambda: reads.append(1) or read()
    codes.make("o", "content", None)
    del reads[:]
    keys_of(store, clock, lambda length: b"x" * length).add()
    del reads[:]
    clock.ran += KEYS_KEPT.total_seconds() - 0.001
    assert codes.make("p", "content", None).fields["code_key"] == 1
    assert reads == []
    clock.ran += 0.001
    assert codes.make("q", "content", None).fields["code_key"] == 2
    assert codes.make("r", "content", None).fields["code_key"] == 2
    assert reads == [1]


def test_a_process_that_cannot_read_the_keys_goes_on_with_those_that_it_knows(codes, store, clock):
    """An order by an earlier key is as good as any."""
    codes.make("o", "content", None)
    store.read = lambda: (_ for _ in ()).throw(StorageUnavailableError("no answer"))
    clock.ran += KEYS_KEPT.total_seconds()
    assert codes.make("p", "content", None).fields["code_key"] == 1


def test_two_operators_add_two_keys(store, clock):
    """None is lost: orders may have been placed with it already."""
    ours, theirs = (
        keys_of(store, clock, lambda length: b"a" * length),
        keys_of(store, clock, lambda length: b"b" * length),
    )
    write, done = store.try_write, []

    def overtaken(value, etag):
        if not done:
            done.append(1)
            theirs.add()
        return write(value, etag)

    store.try_write = overtaken
    assert ours.add() == 2
    assert sorted(json.loads(store.read().value)["keys"]) == ["1", "2"]


def test_an_added_key_whose_reply_was_lost_is_added_once(store, clock):
    """The library repeats the write, and its own first success refuses the repetition."""
    write = store.try_write
    store.try_write = lambda value, etag: write(value, etag) and None
    assert keys_of(store, clock).add() == 1
    assert len(json.loads(store.read().value)["keys"]) == 1


def test_a_blob_that_others_always_change_takes_no_key(store, clock):
    """It is said, and nothing is written."""
    store.try_write = lambda _value, _etag: None
    with pytest.raises(ContentionError, match="in 4 attempts"):
        keys_of(store, clock).add()


def test_a_key_that_is_gone_is_an_error_that_names_it(codes, store):
    """A code of another key would be given to a customer, and open nothing."""
    made = codes.make("o", "content", None)
    with pytest.raises(StorageUnavailableError, match="has the keys \\[1\\], the order was placed with key 7"):
        codes.repeat("o", "content", None, {**made.fields, "code_key": 7})


def test_of_two_processes_that_make_the_first_key_one_wins(store, clock):
    """Both derive with the key that is stored."""
    first, second = keys_of(store, clock), keys_of(store, clock, bytes)
    assert (first.newest(), second.newest()) == (1, 1)
    assert first.find(1) == second.find(1)


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
    for made in (one, codes.make("c", "content", None)):
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
    other = codes.make("b", "content", None)
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
    monkeypatch.setattr("shared.registration.access_codes._MOST_KEPT", 3)
    made = codes.make("o", "content", OWN)
    for n in range(7):
        assert codes.verify(f"o{n}", OWN, lambda: made.fields)
        assert len(codes._right) <= 3
