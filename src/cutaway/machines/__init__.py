"""Computers and GPUs as predictions see them, and a file for each that comes with Cutaway."""
