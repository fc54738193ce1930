"""Runs with a planted reason why N workers do not give N times."""
