"""Cuts a file line by line, as Sluice did until 0.4.0, with nothing of its code: what the quick cutter is held against.

python -m tests.payload.cut_oracle 60000        (that many random files; CI runs it)
"""

import random
import sys

from shared.errors import RefusedError
from shared.payload import Codec, Framing, Limits, cutting, frame_file, spool_for

#: Small enough for every edge to be met within a few bytes.
SMALL = Limits(
    line_bytes=9, frame_bytes=16, frame_items=4, frame_items_least=3, frame_items_most=100, lines_most=40, items_most=30
)
#: Bytes that a file is made of: those that have a meaning more often than others.
ALPHABET = [
    *["\n"] * 5,
    "\n\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "\x0b",
    "\f",
    "{}",
    "{}\n",
    "{}\n{}\n",
    "ab",
    "abcdefgh",
    "\x00",
]
MARKS = ["", "", "", "", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]


def cut(content, limits, chunk_items):
    """Return the texts of the frames, or the reason of the refusal with the line that it names."""
    kept = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if number > limits.lines_most and number <= content.count(b"\n"):
            return "too_many_items", None
        if len(line) > limits.line_bytes:
            return "line_too_long", number
        if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "not_utf8", None
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            kept.append(text.removesuffix(b"\r"))
    if not kept:
        return "empty", None
    return frames(kept, limits, chunk_items)


def frames(lines, limits, chunk_items):
    """Return the texts of the frames of these lines."""
    step = limits.items_most if chunk_items is None else chunk_items * max(1, limits.frame_items_least // chunk_items)
    made, text, items, left = [], b"", 0, step
    for line in lines:
        if items and (items == min(limits.frame_items, left) or len(text) + len(line) + 1 > limits.frame_bytes):
            made.append((text, items))
            left = left - items or step
            text, items = b"", 0
        text, items = text + line + b"\n", items + 1
    made.append((text, items))
    return ("too_many_items", None) if len(lines) > limits.items_most else made


def cut_quickly(pieces, limits, chunk_items, checked=0):
    """Return the same of what is deployed."""
    try:
        with spool_for(limits) as spool:
            framing = Framing(limits=limits, codec=Codec.PLAIN, chunk_items=chunk_items, checked=checked)
            made = frame_file(pieces, spool, framing).index.frames
            spool.seek(0)
            return [(spool.read(one.length), one.items) for one in made]
    except RefusedError as refused:
        named = refused.found.split(" ")
        return str(refused.reason), int(named[1]) if refused.reason == "line_too_long" else None


def random_file(rng):
    """Return the content of a file, the pieces that it comes in, and the lines of a chunk."""
    mark = rng.choice(MARKS) or b""
    # Most have whole lines only, so that most have no oddity.
    letters = rng.choice([ALPHABET, ["{}\n", "{1}\n", "abcd\n"], ["{}\n", "{}\n", "\n", "abcdefgh\n", "x\r\n"]])
    content = mark + "".join(rng.choices(letters, k=rng.randrange(40))).encode()
    size = rng.choice([1, 3, 16, 100])
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return content, pieces, rng.choice([None, None, 1, 2, 3, 5, 7])


def differences(number, seed):
    """Return the files of which the two make different frames."""
    rng, found = random.Random(seed), []
    for _ in range(number):
        content, pieces, chunk_items = random_file(rng)
        wanted, made = cut(content, SMALL, chunk_items), cut_quickly(pieces, SMALL, chunk_items)
        if made != wanted and not _both_refused(made, wanted):
            found.append((content, chunk_items, wanted, made))
    return found


def _both_refused(made, wanted):
    """Of two things that are wrong with a file, either may be seen first."""
    return isinstance(made, tuple) and isinstance(wanted, tuple) and made[0] != wanted[0]


def main():
    """Compare, print what differs, and return how many files did."""
    cutting.BLOCK = 12
    found = differences(int(sys.argv[1]), random.SystemRandom().randrange(2**32))
    for one in found[:20]:
        print(one)  # noqa: T201 - commands print
    return len(found)


if __name__ == "__main__":
    sys.exit(main() > 0)
