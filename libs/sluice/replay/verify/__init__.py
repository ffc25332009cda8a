"""Deciding a log again (DB4)."""

__all__ = ["steps", "whole_log"]
