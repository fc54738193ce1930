"""Why an operation has its name, in words. The rule is native/sweep/namer.h; docs/naming.md explains it."""

REASONS = (
    "you say so",
    "a framework says so",
    "leads to the next step",
    "stores the step",
    "leads to an update",
    "within an update",
    "after an update",
    "a network without gradients",
    "another environment than the training, or a function that evaluates",
    "a compiled function with a gradient inside",
)
"""The position is `Why` of native/trace/format.h."""
