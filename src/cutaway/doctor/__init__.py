"""What can be captured on this machine, and why not: a row of small checks, each one sentence.

Checks look and never change anything: no device is initialised, no framework imported. What might crash when it is asked
(a libcupti without its driver) is asked in a process of its own.
"""

from __future__ import annotations

from cutaway.doctor import gpu, software, system
from cutaway.doctor.finding import Finding, Host

__all__ = ["Finding", "Host", "examine"]
CHECKS = (
    gpu.check_driver,
    gpu.check_cupti,
    gpu.check_other_clients,
    gpu.check_opencl,
    gpu.check_nvml,
    system.check_rapl,
    system.check_perf,
    system.check_ptrace,
    system.check_cpu_limits,
)


def examine(host: Host, processes: int = 1) -> list[Finding]:
    """All checks, in the order in which a user wants to read them."""
    ours = [software.check_python(), software.check_recorder(), *software.check_frameworks()]
    theirs = [check(host) for check in CHECKS]
    return [*ours, *theirs, system.check_thread_pools(host, processes), system.check_disk(host)]
