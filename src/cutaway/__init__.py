"""Cutaway: a profiler for deep reinforcement learning. The public names and nothing else."""
