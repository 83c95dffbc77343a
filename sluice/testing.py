"""A workload or a process in a test of your own, without a stack."""

from shared.promises import ProcessBed as ProcessBed, Report as Report, check_workload as check_workload
from shared.workloads import run_lines as run_lines
