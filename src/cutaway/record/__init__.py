"""Everything that runs inside the traced process: the standard library and `cutaway._recorder`, nothing else."""
