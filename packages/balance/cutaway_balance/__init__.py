"""What the machine should be: sweeps, models and advice. Reads runs; never reaches into the recorder."""
