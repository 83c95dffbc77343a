"""A workload in a test of your own, without a stack: run on lines, and its promises tried."""

from shared.promises import Report as Report, check_workload as check_workload
from shared.workloads import run_lines as run_lines
