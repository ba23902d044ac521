"""What others do when the number of nodes changes: the baselines of paper 5's experiments."""
