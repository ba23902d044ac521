"""Plans, what they are worth, and what to do when there is none."""
