"""Reports: one HTML page each that needs no server and no network. Begin with drawings.py."""
