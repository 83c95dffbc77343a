"""Tries the promises of a workload on sample data, and a process in memory. The app never loads this package: the command and a person's tests do.

- `subject`: the workload under trial, fresh for each trial, and its outcome for some lines, also in another process
- `promises`: each promise, and how a breach of it shows
- `measure`: one pass over all lines, for speed and sizes, and the sample that the promises are tried on
- `check`: tries all promises, and shrinks the sample of each broken one
- `process_bed`: homes, agenda and clock in memory for one process
"""

from shared.promises.check import (
    Report as Report,
    check_named as check_named,
    check_workload as check_workload,
)
from shared.promises.process_bed import ProcessBed as ProcessBed
