"""Fixtures that every test may use."""

from tests.nats import class_nats_server, module_nats_server, nats_server

__all__ = ["class_nats_server", "module_nats_server", "nats_server"]
