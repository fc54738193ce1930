"""Every name and layout that more than one language or room uses, declared once: layers, operations, resources, record kinds, structures.

Python reads this module. `native/vocabulary_header.py` writes the C++ header from it whenever the native parts are built, and the
page gets `drawn()` as JSON. To add a layer or an operation, add its line here and build again. It imports nothing: the traced process
loads it.
"""

from __future__ import annotations

FORMAT_VERSION = 1
SEGMENT_MAGIC = 0x47535743  # "CWSG"
BLOCK_MAGIC = 0x4B425743  # "CWBK"
PULSE_MAGIC = 0x4C505743  # "CWPL"
PULSE_SLOT = (
    2048  # bytes of a slot of pulse.bin; divides a page, so a kill never tears one
)
PULSE_RECORDS = 65
UNUSED_SEQ = 0xFFFFFFFF  # of a live segment that was prepared and never written to
LARGEST_SEGMENT = 4 << 20  # bytes; a live segment is never longer
DEVICE_CHUNK = (
    1 << 16
)  # device.bin: each block begins at a multiple of it and grows in place
API_CALL = 1 << 24  # a "call" of this size and above is an API name
# A thread slept in native code that nobody recorded: "calls" that the reader of records adds from the samples.
BLOCKED_CALL = 1 << 22  # and above: the frame of the stack that led there (log "frame")
GIL_CALL = (
    1 << 23
)  # and above: the same for a thread that waited for the interpreter lock
SAMPLE_DOING = (
    24  # Record.value of a SAMPLE: frame in the bits below, Doing in those above
)
API_SYNC = 1  # ApiRecord.flags
DEVICE_PICOSECONDS = 1  # DeviceRecord.flags
CONSTANTS = tuple(name for name in list(globals()) if name.isupper())
"""The constants above; C++ gets them too."""

NATIVE_CODE, GIL = "native code", "GIL"
"""What a thread was blocked in, if nobody recorded the call; the line that led there says more."""


ACCELERATOR_API = "accelerator_api"


class Layer:
    """How reports name and draw a layer of the stack. `strength` is how opaque it is in the colour of an operation, `where` completes
    "80 % of it is …", `calls` is what its time is spent on, `short` the head of a column that is too narrow for the name."""

    def __init__(
        self,
        title: str,
        colour: str,
        strength: float,
        meaning: str,
        where: str = "",
        calls: str = "",
        short: str = "",
    ) -> None:
        self.title, self.colour, self.strength, self.meaning = (
            title,
            colour,
            strength,
            meaning,
        )
        self.where, self.calls, self.short = where, calls, short


LAYERS = {
    "python": Layer("Python", "#edc948", 1.0, "Python code: all time in no other layer",
                    where="in Python", calls="Python"),
    "native": Layer("native library", "#bab0ac", 0.9, "NumPy, SciPy and OpenCV calls with large arrays; pickle, json and compression",
                    where="in native libraries", calls="native libraries"),
    "simulator": Layer("simulator", "#4e79a7", 0.8, "native simulators: ALE, MuJoCo, Box2D, …",
                       where="in the simulator", calls="simulator calls", short="simul."),
    "backend": Layer("ML backend", "#59a14f", 0.62, "PyTorch, JAX and TensorFlow calls",
                     where="in the ML backend", calls="backend calls"),
    ACCELERATOR_API: Layer("accelerator API", "#b07aa1", 0.46, "CUDA, HIP and OpenCL calls",
                           where="in the accelerator API", calls="accelerator API calls", short="API"),
    "wait": Layer("wait", "", 0.22, "blocked in a pipe, socket, lock, poll, sleep or child process, "
                  "in native code that is not recorded, or for the GIL",
                  where="waiting", calls="waiting"),
    "kernel": Layer("GPU kernel", "#e15759", 0.34, "a device computes"),
    "memcpy": Layer("GPU copy", "#f28e2b", 0.3, "a device copies memory"),
    "memset": Layer("GPU memset", "#9c755f", 0.28, "a device fills memory"),
    "collective": Layer("GPU collective", "#76b7b2", 0.26, "devices exchange data (NCCL, RCCL)"),
}  # fmt: skip
"""In the order in which reports show them: those of threads, then those of devices."""


class Meter:
    """What the recorder samples of a process: its key in log.jsonl, its column in the table `samples`, and what it means. A number
    of bytes (or of anything else) is `whole`."""

    def __init__(
        self, key: str, meaning: str, *, column: str = "", whole: bool = False
    ) -> None:
        self.key, self.meaning, self.whole = key, meaning, whole
        self.column = column or key


PROCESS_METERS = (
    Meter("rss", "resident memory in bytes", whole=True),
    Meter("cores", "cores the process used since the last sample"),
    Meter("foreign", "cores used by programs outside the run", column="other_cores"),
)
"""Read by `Meters::sample` in native/recorder/meters.cpp. A sample that lacks one says nothing about it."""

RESOURCES = {
    "cpu": ("CPU only", 1.0),
    "cpu+gpu": ("CPU and GPU", 0.65),
    "gpu": ("GPU only", 0.4),
    "idle": ("neither", 0.15),
}
"""Who works: title, and how opaque it is drawn."""

OPERATIONS = {
    "simulation": ("#4e79a7", "rl.sample", "stepping and resetting environments"),
    "inference": ("#f28e2b", "rl.sample", "choosing actions with a network"),
    "backpropagation": (
        "#59a14f",
        "rl.train",
        "the whole update: forward with gradients, loss, backward, optimizer",
    ),
    "replay": ("#b07aa1", "", "storing and sampling experience"),
    "sync": ("#9c755f", "rl.sync", "exchanging weights or gradients between processes"),
    "evaluation": (
        "#edc948",
        "",
        "testing the policy; its steps do not count as training",
    ),
    "checkpoint": ("#76b7b2", "", "saving and loading"),
    "compile": ("#79706e", "", "tracing and compiling"),
    "search": ("#499894", "", "tree search"),
    "generation": ("#ff9da7", "", "a language model generates text"),
    "reward": ("#8cd17d", "rl.reward", "scoring generated text"),
    "reference": ("#d4a6c8", "", "log-probabilities of the reference model"),
    "prefill": (
        "#fabfd2",
        "rl.sample",
        "a language model reads prompts; a part of generation",
    ),
    "decode": (
        "#d37295",
        "rl.sample",
        "a language model makes token after token; a part of generation",
    ),
    "tool": (
        "#86bcb6",
        "rl.sample",
        "a tool or environment that a language model calls",
    ),
}
"""Built-in operations: colour, OpenTelemetry's proposed name where there is one, meaning. The recorder numbers them from 1 on."""

SYNC_STEPS = ("pause", "start", "update", "finish", "resume", "sleep", "wake")
"""Of bringing weights to an inference engine: operations `sync: pause` …; the last two give memory away and take it back."""


def whole(operation: str) -> str:
    """The operation that one is a part of; itself, if it is none.

    >>> whole("decode"), whole("sync: pause"), whole("reward")
    ('generation', 'sync', 'reward')
    """
    if operation in ("prefill", "decode"):
        return "generation"
    first, divided, _ = operation.partition(": ")
    return first if divided and first in OPERATIONS else operation


GAUGES = {
    "sequences": "sequences that a language model decodes",
    "waiting": "sequences that wait for a place in the engine",
    "queue": "samples that are ready and wait for the trainer",
    "policy version": "version of the weights that the engine samples with",
    "staleness": "policy versions between the sampling of a batch and its training",
    "trained": "samples that were trained on, so far",
    "discarded": "samples that were thrown away as too old, so far",
    "KV cache": "bytes that the KV cache of an engine holds",
}
"""Values over time that reports understand. `sequences`, `waiting` and `KV cache` are told by an engine, the others by who trains."""


class Kind:
    """What a record of a thread says. The stream of a thread is ordered by time and nested: a call that made no recorded call
    inside is one CALL; any other is ENTER … EXIT around what happened inside it."""

    CALL = 1  # id: call (log "call"), value: duration in ticks
    ENTER = 2  # id: call; also for a call longer than 2^32 ticks
    EXIT = 3  # id: call
    OP_ENTER = 4  # id: name; value: who opened it, Why.ANNOTATED or Why.BY_FRAMEWORK
    OP_EXIT = 5  # id: name; closes the topmost open one of that name
    PHASE = 6  # id: name, 0 for none; in force until the next one on this thread
    ITERATION = 7  # value: number of this iteration in the process
    STEP = 8  # value: environment steps made at this instant (width of a vector environment)
    PAUSE = 9  # recording stops here … id: 1 calibration, 2 window, 3 asked for, 4 size limit, 5 disk
    RESUME = 10  # … and resumes here; value and id: steps and iterations in the pause
    CPU_TIME = 11  # thread CPU ns = id << 32 | value, at this instant
    BEGIN = 12  # the traced life of this thread begins
    END = 13  # … and ends
    MARK = 14  # id: Mark; a hint from which the analysis names what has no operation (sweep/namer.h)
    SAMPLE = 15  # in the stream of samples only; id: thread, value: frame (log "frame") | Doing << 24
    FEED = 16  # something others may wait for is given: id: channel (log "channel"), value: bytes, or 1
    TAKE = 17  # … and taken, whether that had to wait or not


class Doing:
    """What the system said of a thread when its stack was sampled."""

    UNTOLD = (
        0  # recordings made before this was recorded; systems that do not report it
    )
    RUNS = 1  # it runs, or is ready to run
    SLEEPS = 2
    AWAITS_GIL = 3  # sleeps until it gets the interpreter lock


class Mark:
    """What a `Kind.MARK` says."""

    NETWORK_BEGINS = (
        1  # an outermost call of a neural network; value: 1 if gradients were recorded
    )
    NETWORK_ENDS = 2
    BATCH = 3  # a batch is drawn from memory
    RANDOM = 4  # a random action is drawn
    ENVIRONMENT = 5  # which environment is used from here on; value: its number, kEvaluating if it evaluates
    LOG_BEGINS = (
        7  # an outermost call of a logger (TensorBoard, wandb, a framework's metrics)
    )
    LOG_ENDS = 8
    WHY = 6  # never in a file: the reason (value) for which the innermost operation is open changes


WHY = {
    "ANNOTATED": "you named it",
    "BY_FRAMEWORK": "a framework named it",
    "LEADS_TO_STEP": "leads to the next step",
    "STORES_STEP": "stores the step",
    "LEADS_TO_UPDATE": "leads to an update",
    "WITHIN_UPDATE": "within an update",
    "AFTER_UPDATE": "after an update",
    "NETWORK_CALL": "a network without gradients",
    "EVALUATES": "not the training environment, or inside an evaluation function",
    "COMPILED": "a compiled function that computes a gradient",
    "AWAITS_UPDATE": "waits for a compiled update",
    "AWAITS_STEP": "waits for a compiled step",
}
"""Why an operation is open, and how people read it. The first two are recorded, the others come from the rule of sweep/namer.h."""
REASONS = tuple(WHY.values())
Why = type("Why", (), {name: number for number, name in enumerate(WHY)})


class Hint:
    """What a native call says about its neighbourhood, for the rule that names what has no
    operation; bits."""

    STORES = 1  # puts values into an array that is there
    NETWORK = 2  # a layer of a network, or a compiled function
    UPDATE = 4  # a compiled function with a gradient inside
    PHYSICS = 8  # layer simulator
    BLOCKS = 16  # layer wait
    PROGRAM = 32  # a compiled function that is a whole training; with PHYSICS, one that collects a whole rollout
    AWAITS = 64  # waits for what a compiled function computes
    LAUNCHES = 128  # a compiled function: it may compute after it has returned


class Clock:
    """The clock of a block's times."""

    TICKS, MONOTONIC, REALTIME, MONOTONIC_RAW = 0, 1, 2, 3


class Stream:
    """What a block holds."""

    THREAD, API, DEVICE = 0, 1, 2


class DeviceKind:
    """What a piece of device work is."""

    KERNEL, MEMCPY, MEMSET, COLLECTIVE = 1, 2, 3, 4
    SYNC = 5  # the host waits; nothing runs
    OVERHEAD = 6  # time the accelerator's own profiling library took from the program


class RowFlag:
    """About a `Row`."""

    RECORDED = (
        1  # from here on time counts: the thread lives and recording is not paused
    )
    LOSS_BEFORE = 2  # records are missing between this event and the one before


DEVICE_LAYERS = {
    value: name.lower()
    for name, value in vars(DeviceKind).items()
    if name.lower() in LAYERS
}
"""Kinds of device work that make a device busy; the others are records about the host."""

THREAD_LAYERS = tuple(name for name in LAYERS if name not in DEVICE_LAYERS.values())
"""The position is the number the sweep uses."""

ENUMS = (Kind, Doing, Mark, Why, Hint, Clock, Stream, DeviceKind, RowFlag)


def numbers(enum: type) -> dict[str, int]:
    """The names of an enumeration and what they stand for.

    >>> numbers(Stream)
    {'THREAD': 0, 'API': 1, 'DEVICE': 2}
    """
    return {name: value for name, value in vars(enum).items() if name.isupper()}


STRUCTURES = {
    # Record: one event of a thread, 16 bytes. `time` is written last: a record is complete if and only if it is not 0.
    "Record": """
        u64 time   // ticks of the recorder's clock
        u32 value  // see Kind
        u32 tag    // kind in the low 8 bits, id in the high 24
    """,
    # SegmentHead: of live-<thread>-<n>.seg; Records follow up to the end of the file.
    "SegmentHead": """
        u32 magic
        u8 version
        u8 clock       // Clock
        u16 reserved
        u32 thread     // log "thread" id
        u32 seq        // 0, 1, 2 … for each thread; kUnusedSeq: prepared, never written to
        u64 pad[6]
    """,
    # PulseHead: what a thread that writes nothing for a while is in the middle of. It holds if `count` is still the number of
    # records in segment `seq`; the records behind it then go on where the segment ends: ENTER for each open call that was not
    # written yet, and END, now.
    "PulseHead": """
        u32 magic
        u8 version
        u8 clock      // Clock
        u16 used      // records
        u32 thread, seq, count
        u32 call      // the innermost open call, 0: none
        u64 since     // when it began, 0: none
        u32 crc       // CRC-32C of the whole slot with this field 0
        u32 pad[7]
    """,
    # BlockHead: of a block in events.bin and device.bin; `bytes` of payload follow.
    "BlockHead": """
        u32 magic
        u8 version
        u8 stream        // Stream
        u8 clock         // Clock
        u8 reserved
        u32 id           // thread (log "thread" id); 0 for device.bin
        u32 seq          // of this thread; a live segment with a seq that also stands in a block is a duplicate
        u32 count        // records
        u32 bytes        // payload
        u64 first        // smallest time in the payload, in the block's clock
        u64 last         // largest end
        u64 reserved2
        u32 payload_crc  // CRC-32C of the payload
        u32 head_crc     // CRC-32C of the 52 bytes before this field
    """,
    # ApiRecord: one accelerator API call of a host thread.
    "ApiRecord": """
        u64 start, end
        u64 correlation  // unique in the process
        u32 os_thread    // tid
        u32 name         // log "name" id
        u32 operation    // name id of the innermost operation then, 0 if unknown (external correlation)
        u32 flags        // bit 0: a synchronising call
    """,
    # DeviceRecord: one piece of device work.
    "DeviceRecord": """
        u64 start, end
        u64 correlation     // of the launching call; 0 unknown
        u64 bytes           // copies and sets
        u32 name            // log "name" id
        u32 device, stream, graph
        u32 operation       // as in ApiRecord
        u32 grid[3], block[3], registers, shared_static, shared_dynamic
        u8 kind             // DeviceKind
        u8 detail           // copies: CUpti_ActivityMemcpyKind
        u16 flags           // bit 0: queued_ns holds the picoseconds below start (low half) and end (high half) instead
        u32 queued_ns       // submitted → start where the runtime says so, else 0
    """,
    # Source: where one run of records of a thread lies, a block's payload or a live segment. In memory only.
    "Source": """
        u32 file     // index into the caller's list of paths
        u32 count    // records; an upper bound for a live segment
        u64 offset   // of the payload
        u64 bytes    // of the payload
        u32 crc      // of the payload
        u8 packed    // 0: plain Records up to the first with time 0
        u8 clock     // Clock
        u8 stream    // Stream
        u8 reserved
        u32 thread, seq
        u64 last     // largest end in the payload, in the block's clock; 0: not known
    """,
    # Row: an event with what it means. In memory only.
    "Row": """
        i64 time        // ns
        i64 end         // ns; that of a CALL, else as `time`
        u32 value       // of the record
        u32 id          // of the record
        u32 operation   // name of the innermost operation from `time` on, 0 for none
        u32 calls       // calls that began on this thread up to and with this event, modulo 2^32
        u32 operations  // operations that were recorded, with the marks that cost as much; none that the analysis named
        u8 kind         // Kind
        u8 layer        // from `time` on
        u8 after        // from `end` on; differs from `layer` only for a CALL
        u8 flags        // RowFlag
    """,
}
"""Little-endian, without padding."""


def fields(structure: str) -> list[tuple[str, str, int, str]]:
    """Type, name, how many of it, and meaning of each field.

    >>> fields("Record")[0]
    ('u64', 'time', 1, "ticks of the recorder's clock")
    """
    found = []
    for line in STRUCTURES[structure].strip().splitlines():
        declared, _, meaning = line.partition("//")
        kind, _, names = declared.strip().partition(" ")
        for one in names.split(", "):
            name, _, count = one.rstrip("]").partition("[")
            found.append((kind, name, int(count or 1), meaning.strip()))
    return found


def packing(structure: str) -> str:
    """The format by which the module `struct` packs it.

    >>> packing("ApiRecord")
    '<1Q1Q1Q1I1I1I1I'
    """
    letters = {"i64": "q", "u64": "Q", "u32": "I", "u16": "H", "u8": "B"}
    return "<" + "".join(
        f"{count}{letters[kind]}" for kind, _, count, _ in fields(structure)
    )


def drawn() -> dict[str, dict[str, dict[str, object]]]:
    """What the page has to know of this."""
    shown = ("title", "colour", "strength")
    layers = {}
    for name, one in LAYERS.items():
        layers[name] = {key: getattr(one, key) for key in shown}
    resources = {
        name: {"title": title, "strength": strong}
        for name, (title, strong) in RESOURCES.items()
    }
    return {"layers": layers, "resources": resources}
