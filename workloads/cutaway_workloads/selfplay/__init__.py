"""A small Minigo: Go on OpenSpiel's rules, tree search with a network, many self-play workers: `python -m cutaway_workloads.selfplay`.

One generation is self-play, training of a candidate, and its evaluation against the best network so far. Importing this package
imports nothing heavy.
"""
