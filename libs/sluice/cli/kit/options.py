"""What option factories return."""

from collections.abc import Callable
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
