"""Certificates: proofs that a stranger can check with `verify.py` alone. Begin with `certificate.py`, then `verify.py`."""
