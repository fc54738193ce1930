"""Runs that are wrong on purpose, with every checksum right: nothing in them may end a reader in a traceback."""
