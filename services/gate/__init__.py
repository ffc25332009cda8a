"""The gate: what parties ask of JetStream is looked at here, and asked for them."""
