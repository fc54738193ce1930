"""Reference RL programs the profiler is demonstrated and measured on. None of them needs the recorder."""
