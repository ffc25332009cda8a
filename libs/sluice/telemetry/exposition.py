"""Numbers as Prometheus reads them, in its text format."""

from collections.abc import Iterable, Mapping

__all__ = ["family"]


def family(name: str, kind: str, text: str, values: Iterable[tuple[Mapping[str, str], float | str]]) -> str:
    """Return the lines of one metric: *kind* is `gauge` or `counter`, *text* says what it counts.

    *values*: labels and the value of each; text is taken as it is.
    """
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in values:
        told = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"{name}{{{told}}} {value if isinstance(value, str) else _number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
