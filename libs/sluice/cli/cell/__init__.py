"""Talking to a running cell: its api, its log, its agents."""
