"""What can be captured on this machine, and why not: a row of small checks, each one sentence.

Checks look and never change anything: no device is initialised, no framework imported. What might crash when it is asked
(a libcupti without its driver) is asked in a process of its own.
"""

from __future__ import annotations

from cutaway.doctor.finding import Finding, Machine
from cutaway.doctor.gpu import check_cupti, check_driver, check_nvml, check_opencl, check_other_clients
from cutaway.doctor.machine import (
    check_cpu_limits,
    check_disk,
    check_perf,
    check_ptrace,
    check_rapl,
    check_thread_pools,
)
from cutaway.doctor.software import check_frameworks, check_python, check_recorder


def examine(machine: Machine, processes: int = 1) -> list[Finding]:
    """All checks, in the order in which a user wants to read them."""
    return [
        check_python(),
        check_recorder(),
        *check_frameworks(),
        check_driver(machine),
        check_cupti(machine),
        check_other_clients(machine),
        check_opencl(machine),
        check_nvml(machine),
        check_rapl(machine),
        check_perf(machine),
        check_ptrace(machine),
        check_cpu_limits(machine),
        check_thread_pools(machine, processes),
        check_disk(machine),
    ]


__all__ = ["Finding", "Machine", "examine"]
