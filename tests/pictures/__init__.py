"""Dashboards drawn of what Prometheus answers, as Grafana would place and label it."""
