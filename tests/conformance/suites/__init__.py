"""One adapter per suite: `SUITE`, `run(case, header)` and, where needed, `LEFT_OUT` (name -> reason)."""
