"""Permissions, processor limits, thread pools, disk."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator

from cutaway.doctor.finding import LIMITED, MISSING, OK, Finding, Host

POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GB = 10**9


def check_rapl(host: Host) -> Finding:
    """CPU energy."""
    from cutaway.record.meters import rapl_domains

    found, reason = rapl_domains(host.root / "sys/class/powercap")
    if found:
        return Finding("RAPL", OK, f"{len(found)} counters: {', '.join(d.name for d in found)}")
    sentence, _, remedy = reason.partition("; ")
    state = LIMITED if remedy else MISSING
    return Finding("RAPL", state, sentence, remedy or "none on this machine; CPU energy is not measured")


def check_perf(host: Host) -> Finding:
    """Hardware counters are not needed by us, but by those who look further."""
    level = host.read("proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return Finding("perf", MISSING, "this kernel has no perf events", "not needed for Cutaway itself")
    if os.geteuid() == 0 or int(level) <= 1:
        return Finding("perf", OK, f"perf_event_paranoid is {level}")
    return Finding("perf", LIMITED, f"perf_event_paranoid is {level}", "sysctl kernel.perf_event_paranoid=1")


def check_ptrace(host: Host) -> Finding:
    """Whether `cutaway attach`, debuggers and py-spy may look into running processes; nothing else needs to."""
    scope = host.read("proc/sys/kernel/yama/ptrace_scope")
    if scope in (None, "0") or (os.geteuid() == 0 and scope != "3"):
        return Finding("ptrace", OK, "allowed" if scope is None else f"ptrace_scope is {scope}")
    if scope == "1":
        remedy = "sysctl kernel.yama.ptrace_scope=0 for cutaway attach and py-spy"
        return Finding("ptrace", OK, "children only (ptrace_scope 1), which is enough", remedy)
    return Finding("ptrace", LIMITED, f"ptrace_scope is {scope}", "sysctl kernel.yama.ptrace_scope=1")


def check_cpu_limits(host: Host) -> Finding:
    """How many cores we may use, against how many a program sees."""
    seen, allowed, quota = host.visible_cores(), host.allowed_cores(), cpu_quota(host)
    usable = usable_cores(host)
    if usable >= seen:
        return Finding("CPU", OK, f"{seen} cores, no limit")
    why = f"a quota of {quota:g}" if quota is not None and quota < allowed else f"an affinity of {allowed}"
    text = f"{seen} cores visible, {why}: thread pools sized by visible cores are too large"
    remedy = f"set OMP_NUM_THREADS={max(1, math.floor(usable))} or raise the limit"
    return Finding("CPU", LIMITED, text, remedy)


def check_thread_pools(host: Host, processes: int) -> Finding:
    """Threads that would compute at once: pools of each process times processes, against cores."""
    usable = usable_cores(host)
    stated = [(name, int(v)) for name in POOLS if (v := host.environ.get(name, "")).isdigit() and int(v) > 0]
    size = max((count for _, count in stated), default=host.visible_cores())
    limits = ", ".join(f"{name}={count}" for name, count in stated)
    source = limits or "no limit set, so one thread per visible core"
    each = "1 process" if processes == 1 else f"{processes} processes"
    text = f"{each} x {size} threads on {usable:g} cores ({source})"
    if size * processes <= math.ceil(usable):
        return Finding("thread pools", OK, text)
    fair = max(1, math.floor(usable / processes))
    return Finding("thread pools", LIMITED, text, f"set OMP_NUM_THREADS={fair} for each process")


def check_disk(host: Host) -> Finding:
    """Room where a run would be written."""
    free = shutil.disk_usage(host.folder).free
    text = f"{free / _GB:.1f} GB free here"
    if free < _GB // 10:
        return Finding("disk", MISSING, text, "free some space or record elsewhere with -o")
    if free < _GB:
        return Finding("disk", LIMITED, text, "record elsewhere with -o, or limit the run with --max-size")
    return Finding("disk", OK, text)


def usable_cores(host: Host) -> float:
    """The smaller of affinity and quota."""
    quota = cpu_quota(host)
    allowed = host.allowed_cores()
    return allowed if quota is None else min(float(allowed), quota)


def cpu_quota(host: Host) -> float | None:
    """The tightest CPU quota of our control groups, in cores; None without one."""
    quotas = [*_quotas_v2(host), *_quotas_v1(host)]
    return min(quotas, default=None)


def _quotas_v2(host: Host) -> Iterator[float]:
    for folder in _groups(host, ""):
        text = host.read(f"sys/fs/cgroup{folder}/cpu.max")
        limit, _, period = (text or "max").partition(" ")
        if limit != "max" and period.isdigit():
            yield int(limit) / int(period)


def _quotas_v1(host: Host) -> Iterator[float]:
    for folder in _groups(host, "cpu"):
        limit = host.read(f"sys/fs/cgroup/cpu{folder}/cpu.cfs_quota_us")
        period = host.read(f"sys/fs/cgroup/cpu{folder}/cpu.cfs_period_us")
        if limit and period and int(limit) > 0:
            yield int(limit) / int(period)


def _groups(host: Host, controller: str) -> Iterator[str]:
    """Our control group and those around it, from the innermost to the root."""
    for line in (host.read("proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            parts = [part for part in path.split("/") if part]
            for depth in range(len(parts), -1, -1):
                yield "".join(f"/{part}" for part in parts[:depth])
