"""The study of distributed RL on CPU-GPU systems, with stated priors and nothing fitted. `make studies` runs it."""
