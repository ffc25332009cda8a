"""Take JavaScript packages from npm into the repository: the files that vendor.lock names, byte for byte.

python .ci/vendor.py libs/sluice/console/static/vendor          # download again and compare
python .ci/vendor.py libs/sluice/console/static/vendor --renew  # newest versions; writes the lock anew
"""

import argparse
import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any


def sri(algorithm: str, data: bytes) -> str:
    """Return *data*'s hash as npm, import maps and Content-Security-Policy write it."""
    return f"{algorithm}-{base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


def packed(name: str, version: str) -> tuple[str, bytes]:
    """Return the version and the tarball that npm has; *version* may be `latest`."""
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--json", f"{name}@{version}"]
        said = json.loads(subprocess.run(command, cwd=place, check=True, stdout=subprocess.PIPE).stdout)
        return said[0]["version"], (Path(place) / said[0]["filename"]).read_bytes()


def take(package: dict[str, Any], folder: Path, *, renew: bool) -> list[str]:
    """Write or compare the files of one package; returns what differs."""
    version, tarball = packed(package["name"], "latest" if renew else package["version"])
    wrong = []
    if renew:
        package |= {"version": version, "integrity": sri("sha512", tarball)}
    elif sri("sha512", tarball) != package["integrity"]:
        wrong.append(f"{package['name']}: not the tarball of the lock")
    with tempfile.TemporaryFile() as file:
        file.write(tarball)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            for kept in package["files"]:
                member = archive.extractfile(f"package/{kept['from']}")
                assert member is not None, kept["from"]
                data = member.read()
                if renew:
                    kept["integrity"] = sri("sha384", data)
                    (folder / kept["file"]).write_bytes(data)
                elif (folder / kept["file"]).read_bytes() != data:
                    wrong.append(f"{kept['file']}: not what {package['name']} {version} has")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--renew", action="store_true")
    options = parser.parse_args()
    lock = options.folder / "vendor.lock"
    packages = json.loads(lock.read_text())
    wrong = [each for package in packages for each in take(package, options.folder, renew=options.renew)]
    if options.renew:
        lock.write_text(json.dumps(packages, indent=2) + "\n")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
