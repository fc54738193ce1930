"""SVG and HTML, drawn in one place: markup, pictures, tables, colours, and the frame of every page. Knows nothing of runs."""
