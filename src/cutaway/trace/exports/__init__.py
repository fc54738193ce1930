"""A run as other tools draw it: one file for each format, all made from the tracks of timeline.py."""
