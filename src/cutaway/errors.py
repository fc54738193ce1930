"""The one exception users are meant to see: a sentence that says what is wrong and what to do."""


class CutawayError(Exception):
    """A failure the user can do something about; the command line prints it as one line."""
