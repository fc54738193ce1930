"""How many commands lie between a slow program and the line to change, for an agent and for a person?"""
