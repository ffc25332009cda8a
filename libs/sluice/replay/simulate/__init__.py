"""A log's inputs played again in virtual time, under other rules (DB5)."""
