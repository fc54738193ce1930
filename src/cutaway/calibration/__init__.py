"""What the recorder itself costs: measured on this machine (`bench`), and on the run itself (`units`, `estimate`)."""
