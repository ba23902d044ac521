"""What others do when the number of nodes changes: the baselines of the experiments in [Ding2015], all in baselines.py."""
