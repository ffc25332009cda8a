"""Folds of the events of all writers into what people see."""
