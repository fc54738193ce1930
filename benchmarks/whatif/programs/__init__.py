"""Training programs with settings, each of which prints how many steps a second it made."""
