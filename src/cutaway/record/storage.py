"""Where a process records: into the run's folder, or on a local disk of its host when that folder is far away.

Memory maps over a network file system do not survive a kill, and several hosts must not write into one folder. So a run in a
network folder, and a run of Ray, is recorded on each host's own disk, in a part named after the host. A helper process moves
the parts of a network folder there (`cutaway.cluster.move`); `cutaway gather` collects those of Ray.
"""

from __future__ import annotations

import os
import stat
import sys
import zlib

from cutaway.record.options import Options

NETWORK = tuple(
    "nfs cifs smb lustre gpfs beegfs ceph fuse 9p afs gluster orangefs weka pvfs".split()
)
HOST = "host-"  # begins the names of folders that hold what one host of a run recorded


def place(options: Options) -> str:
    """The folder this process records into; made if it is missing."""
    local = options.local or (
        scratch(options.folder) if on_network(options.folder) else ""
    )
    if not local:
        return options.folder
    part = os.path.join(local, HOST + os.uname().nodename)
    for folder in (os.path.dirname(local), local, part):
        try:
            os.makedirs(folder, mode=0o700)
        except FileExistsError:  # others can write to /tmp, too: the folder must belong to us and must not be a link
            found = os.lstat(folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                remedy = "set CUTAWAY_LOCAL to a folder of your own"
                raise OSError(f"{folder} belongs to another user; {remedy}") from None
    if options.mover:
        target = os.path.join(options.folder, os.path.basename(part))
        start_helper(part, "mover.lock", "cutaway.cluster.move", part, target)
    return part


def install(options: Options) -> None:
    """Start what keeps a long run small."""
    start_helper(
        options.folder, "keep.lock", "cutaway.keep", options.folder, str(options.keep_s)
    )


def scratch(folder: str) -> str:
    """Where the hosts of a run keep their parts; the same path on each, and another for each run."""
    shared = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"cutaway-{os.getuid()}")
    name = f"{os.path.basename(folder)}-{zlib.crc32(folder.encode()):08x}"
    return os.path.join(os.environ.get("CUTAWAY_LOCAL") or shared, name)


def on_network(folder: str, mounts: str = "/proc/self/mounts") -> bool:
    """Whether a folder, or the one it will be made in, lies on a file system of another machine."""
    path = os.path.realpath(folder)
    best = ""
    kind = ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                _, mount, fstype, *_ = line.split(" ")
                mount = mount.replace("\\040", " ").rstrip("/")
                if (path == mount or path.startswith(mount + "/")) and len(
                    mount
                ) >= len(best):
                    best = mount
                    kind = fstype
    except (OSError, ValueError):
        return False
    return kind.startswith(NETWORK)


def start_helper(folder: str, lock_name: str, module: str, *arguments: str) -> None:
    """Start a helper process, once for each folder: the one that holds the lock runs. It detaches at once, so the program never sees it
    as a child."""
    import fcntl

    lock = os.open(
        os.path.join(folder, lock_name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # it runs
    finally:
        os.close(lock)
    environment = {key: value for key, value in os.environ.items() if key != "CUTAWAY"}
    nothing = [
        (os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in range(3)
    ]
    command = [sys.executable, "-m", module, *arguments]
    child = os.posix_spawn(
        sys.executable, command, environment, file_actions=nothing, setsid=True
    )
    os.waitpid(child, 0)
