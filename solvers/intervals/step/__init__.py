"""One migration. Begin with ssm.py, the band dynamic program; printed.py holds the paper's figures as printed and repaired."""
