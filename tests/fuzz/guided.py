"""Guided fuzzing of every reader of what others have written: `make fuzz-guided`, with atheris installed.

    python -m tests.fuzz.guided [READER ...] [-- OPTIONS OF LIBFUZZER]

Bytes that reach new code are kept and changed further. The first byte says which reader gets the others; the
corpus of `make test` is where it begins. It ends at the first exception that nobody expects, at an input that
takes longer than `-timeout=` seconds of the clock, or after `-max_total_time=` seconds.
"""

import sys
import tempfile
from pathlib import Path

try:
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ImportError:
    sys.exit("guided fuzzing needs atheris: .venv/bin/pip install atheris")

with atheris.instrument_imports(include=["sluice"]):
    from tests.support.readers import READERS, read

from tests.fuzz.test_readers import CORPUS


def main(arguments: list[str]) -> None:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, options = arguments[:at] or list(READERS), arguments[at + 1 :]

    def one(data: bytes) -> None:
        if data:
            read(READERS[names[data[0] % len(names)]], data[1:])

    with tempfile.TemporaryDirectory(prefix="sluice-fuzz-") as folder:
        for number, data in enumerate(CORPUS):
            for reader in range(len(names)):
                if len(data) < 200:
                    (Path(folder) / f"{reader}-{number}").write_bytes(bytes([reader]) + data)
        atheris.Setup([sys.argv[0], "-timeout=10", "-max_len=4096", *options, folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
