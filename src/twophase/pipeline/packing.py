"""A package of the user's own as one file, which is how Spark takes it to executors."""

import os
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile


def pack(package: Path, folder: Path) -> Path:
    """Put a package into a zip in this folder, from which Python can import it; return the zip."""
    packed = folder / f"{package.name}.zip"
    # Files in images may be of 1970, which a zip does not know.
    with ZipFile(packed, "w", ZIP_DEFLATED, strict_timestamps=False) as file:
        for place, folders, names in os.walk(package):
            folders[:] = sorted(each for each in folders if _belongs(each))
            # Python before 3.13 finds packages without __init__.py only by entries of their own.
            for name in (".", *sorted(name for name in names if _belongs(name))):
                path = Path(place, name)
                file.write(path, package.name / path.relative_to(package))
    return packed


def _belongs(name: str) -> bool:
    return name != "__pycache__" and not name.startswith(".")
