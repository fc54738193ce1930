"""The version, and nothing else: the build, the command line and run.json take it from here."""

__version__ = "0.1.0"
