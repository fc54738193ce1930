"""Options of the trainer for runs of some seconds on an emulated accelerator."""

EMULATED = "--emulate-device 100,10,500 --unroll 10 --burn-in 2 --batch 8 --replay-minimum 8".split()
EMULATED += ["--queue", "10"]  # the learner cannot fall behind by more
