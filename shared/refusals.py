"""The catalogue of the reasons for refusing or parking a message, each with a remedy.

`make docs` writes the tables of `docs/appendix/reasons.md` and `docs/parked.md` from it.
"""

from enum import StrEnum
from typing import Final, Self

from shared.errors import RefusedError


class ReasonCode(StrEnum):
    """A named reason. Its code is permanent, because parked entries keep it."""

    means: str
    instead: str

    def __new__(cls, code: str, means: str, instead: str) -> Self:
        """Make a reason whose value is its code."""
        reason = str.__new__(cls, code)
        reason._value_ = code
        reason.means, reason.instead = means, instead
        return reason


class Reason(ReasonCode):
    """Why a publisher's message, a payload or a transaction is refused."""

    # The message.
    NOT_JSON = "not_json", "it is not a JSON document", "send UTF-8 JSON, plain or as Base64"
    NOT_UTF8 = "not_utf8", "its bytes are not UTF-8", "encode it as UTF-8 without a byte order mark"
    NOT_A_NUMBER = "not_a_number", "NaN or Infinity stands for a number", "send null, or leave the field out"
    NUMBER_OUT_OF_RANGE = (
        "number_out_of_range",
        "a number has more than 4,300 digits or is no double (an exponent of -324 to 308)",
        "send it as a string, or check how it came about",
    )
    LONE_SURROGATE = "lone_surrogate", "a string holds half of a surrogate pair", "send whole Unicode characters"
    DUPLICATE_KEY = "duplicate_key", "an object has the same key twice", "send each key once"
    TOO_DEEP = "too_deep", "arrays or objects are nested too deeply", "flatten it to at most 32 levels"
    MESSAGE_TOO_LARGE = "message_too_large", "the message is larger than a queue takes", "send the payload as a blob"
    NO_ENVELOPE = "no_envelope", "there is no object `sluice` at the top", 'send {"sluice": {"items": [{}]}}'
    UNSUPPORTED_VERSION = "unsupported_version", "the version `v` is not 1", "send version 1, or update Sluice first"
    UNKNOWN_KIND = "unknown_kind", "the `kind` is not one that this queue takes", "send kind submission, or none"
    UNKNOWN_FIELD = "unknown_field", "a field is not known", "check its spelling against docs/formats.md"
    MISSING_FIELD = "missing_field", "a field that must be there is not", "add it"
    WRONG_TYPE = "wrong_type", "a field's value is of the wrong type", "send what docs/formats.md says for it"
    BAD_JOB = (
        "bad_job",
        "the job id does not fit its grammar",
        "send 1 to 100 of a-z, 0-9, dot, underscore and hyphen, a letter or digit first",
    )
    BAD_NAME = (
        "bad_name",
        "a name of a workload, gate, conference or seat type, or an id, does not fit its grammar",
        "keep to the grammar of job ids",
    )
    UNKNOWN_WORKLOAD = (
        "unknown_workload",
        "this installation has no such workload",
        "name one that it has, or deploy it",
    )
    UNKNOWN_SUM = (
        "unknown_sum",
        "a sum is declared over a field that the workload does not add up",
        "declare sums over the workload's own fields, or none",
    )
    UNKNOWN_JOB = (
        "unknown_job",
        "there is no such job",
        "drop the submission first; internal messages are not for publishers",
    )
    CONFLICT = (
        "conflict",
        "its job id was used for other content before",
        "send it under another job id, or the first content again",
    )
    ERASED = (
        "erased",
        "the job of this id was erased",
        "send it under another job id, if it may be kept again",
    )
    BAD_AFTER = (
        "bad_after",
        "`after` or `payload.jobs` does not name 1 to 100 other jobs of its room, each once",
        "name jobs of its own room by their ids; more than 100 through a job that follows them",
    )
    # The declared payload.
    PAYLOAD_FORM = (
        "payload_form",
        "there is not exactly one payload",
        "send one of items, payload.inline, payload.blob, payload.jobs, payload.stretches",
    )
    EMPTY = "empty", "it has no transactions", "send at least one, or nothing at all"
    TOO_MANY_ITEMS = "too_many_items", "it has more transactions or frames than one job may", "split it into jobs"
    BAD_BASE64 = "bad_base64", "the inline payload is not Base64", "encode it with the standard alphabet and padding"
    UNKNOWN_CODEC = "unknown_codec", "the codec is not known", "compress with zstd or gzip, or send it plain"
    BAD_BLOB_NAME = (
        "bad_blob_name",
        "the blob's name does not fit its grammar",
        "name a blob of the payload container, by name and not by URL: A-Z a-z 0-9 _ . = + @ , - between slashes",
    )
    OTHERS_FOLDER = (
        "others_folder",
        "a payload with an index lies outside its job's folder",
        "write it to <job>/<sha256>: payloads are not shared between jobs",
    )
    BAD_INDEX = "bad_index", "the frames do not follow each other without a gap", "list each frame once, in order"
    INDEX_MISMATCH = (
        "index_mismatch",
        "the index does not have the hash it is said to have",
        "hash the frame list as sent",
    )
    INDEX_MISSING = "index_missing", "the blob with the index is not there", "write the index before the message"
    COUNT_MISMATCH = "count_mismatch", "it does not hold as many transactions as declared", "count what is sent"
    BAD_SUM = (
        "bad_sum",
        "a declared sum is not a plain decimal number of at most 30 digits before and 18 behind the point",
        'send it as a string like "1234567.89"',
    )
    BAD_DEADLINE = (
        "bad_deadline",
        "the deadline is no time with a date and a time zone",
        "send it like 2026-11-21T06:00:00Z",
    )
    BAD_BOUND = (
        "bad_bound",
        "the bound of rejected transactions is no whole number and no share from 0% to 100%",
        'send it as a string like "1000" or "2.5%"',
    )
    # The payload's bytes.
    PAYLOAD_MISSING = "payload_missing", "the payload's blob is not there", "write the blob before the message"
    PAYLOAD_REPLACED = "payload_replaced", "the blob was changed after it was accepted", "write another blob instead"
    LENGTH_MISMATCH = (
        "length_mismatch",
        "the bytes are fewer or more than the index says",
        "upload it whole, then list it",
    )
    HASH_MISMATCH = "hash_mismatch", "a frame does not have the hash of the index", "upload it again, as it was listed"
    CORRUPT = (
        "corrupt",
        "the compressed bytes are damaged or of another codec",
        "compress it again with the named codec",
    )
    TRUNCATED = "truncated", "the compressed bytes end too early", "upload it whole"
    TRAILING_BYTES = (
        "trailing_bytes",
        "there are bytes behind the compressed data",
        "end where the compressed data ends",
    )
    SEVERAL_MEMBERS = "several_members", "one frame holds several compressed members", "list each member as a frame"
    WINDOW_TOO_LARGE = "window_too_large", "expanding it takes too much memory", "compress without --long or --ultra"
    EXPANDS_TOO_FAR = (
        "expands_too_far",
        "it expands to more than 500 times its size",
        "publish it with `sluice submit`, which cuts it into frames, or send it less compressed",
    )
    FRAME_TOO_LARGE = "frame_too_large", "a frame is larger than 4 MiB", "cut frames of about 1,000 transactions"
    PAYLOAD_TOO_LARGE = "payload_too_large", "the whole payload is larger than one job may be", "split it into jobs"
    LINE_COUNT = "line_count", "a frame has more or fewer lines than the index says", "count its line feeds"
    LAST_LINE_OPEN = "last_line_open", "a frame does not end with a line feed", "end every line with a line feed"
    RESULT_TOO_LARGE = (
        "result_too_large",
        "what the workload makes of a chunk is larger than 32 MiB",
        "cut smaller frames, or have the workload's partial hold less",
    )
    # One transaction.
    LINE_TOO_LONG = (
        "line_too_long",
        "a transaction is longer than 256 KiB",
        "keep documents elsewhere, send their names",
    )
    NOT_AN_OBJECT = "not_an_object", "a transaction is not a JSON object", "send one object a line"
    DOES_NOT_FIT = "does_not_fit", "a transaction lacks what its workload needs", "send the workload's fields"
    BAD_AMOUNT = (
        "bad_amount",
        "a field that is added up is no number of at most 20 digits before and 18 behind the point",
        "send a string like -12.30 or a number, null, or nothing",
    )


class TableReason(ReasonCode):
    """Why a publisher does not convert a file of CSV or Parquet. Nothing of it is sent."""

    BAD_HEADER = "bad_header", "its columns have no names, or not one name each", "name each column once"
    ROW_LENGTH = (
        "row_length",
        "a row has more or fewer values than there are columns",
        "give each row a value for each column, and quote a value that holds the delimiter",
    )
    BAD_QUOTES = (
        "bad_quotes",
        "a row is not quoted as RFC 4180 says",
        "quote the whole value, write each mark inside it twice, and end lines by LF or CRLF",
    )
    NO_NUMBER = "no_number", "a value of a column of numbers is no number", "send the column as text, or mend the value"
    BAD_PARQUET = "bad_parquet", "the file cannot be read as Parquet", "write it again"
    NO_FORM = "no_form", "a type or a value of Parquet has no form in JSON", "cast the column before you write the file"


_NEWER: Final = (
    "newer_version",
    "a newer version of Sluice wrote it",
    "deploy the version of Sluice that wrote it, then replay",
)


class DeliveryReason(ReasonCode):
    """Why a delivery is parked that no publisher can correct."""

    UNREADABLE = (
        "unreadable",
        "this version does not know the work message",
        "send the message as docs/formats.md describes it, or discard it",
    )
    NEWER_VERSION = _NEWER
    UNKNOWN_WORKLOAD = (
        "unknown_workload",
        "the job's workload is not there any more",
        "deploy the workload and name it in SLUICE_WORKLOADS, then replay",
    )
    UNNAMED = (
        "unnamed",
        "a submission without a job id was given up, and its message has an id that is not known",
        "check whether its job exists: if so discard it, else replay it with `--as JOB`",
    )
    KILLED_ITS_WORKER = (
        "killed_its_worker",
        "the processes that worked on it ended before it did",
        "check the workload for memory use and exits on its transactions, then replay",
    )
    TOOK_TOO_LONG = (
        "took_too_long",
        "its process ended before, and in one of its own it stood still, or ran longer than it may there",
        "check the workload for loops and waits without an end on its transactions, then replay",
    )
    DELIVERED_TOO_OFTEN = (
        "delivered_too_often",
        "the host gave it up after its last delivery",
        "find in the log why its deliveries failed, then replay",
    )
    DEAD_LETTERED = (
        "dead_lettered",
        "the bus gave it up after its last delivery",
        "find in the log why the bus gave it up, then replay",
    )


class ResultReason(ReasonCode):
    """Why a result message is parked instead of credited."""

    UNREADABLE = (
        "result_unreadable",
        "no result can be read from the message",
        "find out who else sends to the queue of results; the tick dispatches the chunk again",
    )
    UNKNOWN_JOB = (
        "result_of_unknown_job",
        "it is a result of a job that is not there",
        "find out who else sends to the queue of results; replay it when the job was restored",
    )
    REFUSED = (
        "result_refused",
        "the result contradicts its job",
        "find out who else sends to the queue of results; the tick dispatches the chunk again",
    )
    LEDGER_UNREADABLE = (
        "ledger_unreadable",
        "the rows of its job cannot be read",
        "restore the job's rows, then replay",
    )
    FAILED = (
        "result_failed",
        "crediting it failed",
        "find the failure in the log; the tick dispatches the chunk again",
    )
    NEWER = _NEWER


BY_CODE: Final = {reason.value: reason for reason in Reason}


def refuse(reason: ReasonCode, found: str) -> RefusedError:
    """Return the error of a reason, with the fault that was found and the remedy."""
    return RefusedError(reason, found, reason.instead)
