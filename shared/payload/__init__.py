"""Payloads of submissions: read, verified, framed and stored. Nothing hostile passes, nothing valid is refused.

Reading order:

- `submission`: the message and its fields
- `text_lines`, `cutting`: a file to lines, lines to the texts of frames
- `frames`: texts to frames, and the index
- `payload_store`: the blobs, and every bound
- `stretches`: a payload that grows
- `ranges`: a file that is cut by many
- `reading`: any form of payload to an index and stored frames; the frames of a chunk back to lines
- `transactions`: lines to typed values
- `csv_rows`, `parquet_rows`: a publisher's tables to lines; the second is imported by its own name, for it loads pyarrow
"""

from shared.payload.csv_rows import CsvForm as CsvForm, Table as Table, convert_csv as convert_csv
from shared.payload.cutting import Cutter as Cutter
from shared.payload.frames import (
    Codec as Codec,
    Frame as Frame,
    Framed as Framed,
    FrameIndex as FrameIndex,
    Framing as Framing,
    check_room as check_room,
    expand_file as expand_file,
    expand_frame as expand_frame,
    frame_file as frame_file,
    make_cutter as make_cutter,
    parse_index as parse_index,
    sniff as sniff,
    spool_for as spool_for,
    write_frames as write_frames,
    write_texts as write_texts,
)
from shared.payload.payload_store import (
    ANY_VERSION as ANY_VERSION,
    MIB as MIB,
    WHOLE as WHOLE,
    Limits as Limits,
    PayloadStore as PayloadStore,
    PayloadStores as PayloadStores,
    StoredBlob as StoredBlob,
)
from shared.payload.ranges import CutRange as CutRange, Ranges as Ranges, read_cut as read_cut, read_range as read_range
from shared.payload.reading import (
    LARGE as LARGE,
    LARGE_FINISHES as LARGE_FINISHES,
    SMALL_FINISHES as SMALL_FINISHES,
    WORK as WORK,
    Intake as Intake,
    Payload as Payload,
    PayloadReader as PayloadReader,
    ReadChunk as ReadChunk,
    fingerprint as fingerprint,
    fingerprint_before as fingerprint_before,
    fingerprints_of as fingerprints_of,
    most_rows as most_rows,
    of_chunk as of_chunk,
    of_dispatch as of_dispatch,
    of_finish as of_finish,
    of_plan as of_plan,
    of_range as of_range,
    of_sources as of_sources,
    of_submission as of_submission,
)
from shared.payload.stretches import (
    ReadStretch as ReadStretch,
    StretchFields as StretchFields,
    StretchStore as StretchStore,
    check_size as check_size,
    read_stretch as read_stretch,
    stretch_folder as stretch_folder,
)
from shared.payload.submission import (
    DEFAULT_WORKLOAD as DEFAULT_WORKLOAD,
    OPTIONS as OPTIONS,
    SUBMISSION as SUBMISSION,
    WRAPPER as WRAPPER,
    Declared as Declared,
    DeclaredFields as DeclaredFields,
    Envelope as Envelope,
    FileBlob as FileBlob,
    Form as Form,
    FromJobs as FromJobs,
    MessageHeader as MessageHeader,
    PayloadFields as PayloadFields,
    SourceFiles as SourceFiles,
    Stretched as Stretched,
    Submission as Submission,
    SubmissionFields as SubmissionFields,
    SubmissionOptions as SubmissionOptions,
    check_count as check_count,
    choose as choose,
    open_envelope as open_envelope,
    read_bare as read_bare,
    read_declared as read_declared,
    read_submission as read_submission,
    seal as seal,
    wait_for_newer as wait_for_newer,
    write_submission as write_submission,
)
from shared.payload.text_lines import cut_lines as cut_lines, split_lines as split_lines
from shared.payload.transactions import (
    Read as Read,
    UnreadableTransaction as UnreadableTransaction,
    read_json as read_json,
    reader_of as reader_of,
)
