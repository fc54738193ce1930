"""What people read: the terminal summary, the page, the live view. Reads runs through `cutaway.open`, writes no traces."""
