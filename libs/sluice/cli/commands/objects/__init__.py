"""Commands about objects: get, describe, apply, delete, events."""
