"""The survey: the same question asked of many programs. `make survey` runs the cells, draws the figures and writes docs/survey.md.

It uses nothing but the command line of Cutaway: `cutaway run` for every cell, `cutaway compare` for every figure.
"""
