"""The pure core: what a batch's marker means, and what to do about it. No I/O, clock or thread."""
