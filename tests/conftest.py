"""Fixtures and settings that every test may use."""

from hypothesis import HealthCheck, settings

from tests.nats import class_nats_server, module_nats_server, nats_server

# How fast examples are made says something of the machine, nothing of Sluice.
settings.register_profile("sluice", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sluice")

__all__ = ["class_nats_server", "module_nats_server", "nats_server"]
