"""The wire contract as files (`python -m sluice.contract`): no service loads this."""
