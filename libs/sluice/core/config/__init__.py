"""Configuration objects: what they are now, and what applying or deleting one would change."""

__all__ = ["objects", "plan"]
