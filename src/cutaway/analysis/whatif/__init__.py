"""What would be: a recorded run as a graph of work and waits, changed and replayed. `predict.py` is the way in."""
