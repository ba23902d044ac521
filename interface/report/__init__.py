"""Reports: one HTML page each that needs no server, no network and no script."""
