"""Changes that are really made: does `cutaway what-if` foretell them from the recording before?"""
