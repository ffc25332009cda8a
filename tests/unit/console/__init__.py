"""The console's HTTP API, over logs at hand."""
