"""The file format of a run: writer, reader, clocks, imports and exports."""
