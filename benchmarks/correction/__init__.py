"""How true corrected figures are, on real programs: see __main__.py."""
