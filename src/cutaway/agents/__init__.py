"""What coding agents use: a server with five tools, and a skill that says how to work with them."""
