"""Running a workload on lines, as the app does for a chunk: without a stack."""

from shared.workloads import run_lines as run_lines
