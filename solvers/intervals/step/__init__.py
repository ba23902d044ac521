"""One migration: the band dynamic program, the paper's figures as printed and repaired, a price on intervals."""
