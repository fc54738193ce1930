"""The parts of a digest, each made from tables of a run."""
