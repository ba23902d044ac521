"""Archives of arrays (``.npz``) that run no code and allocate no more than they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.files.schema import size_of
from keyshift.models.files.writing import reason, write_file

MOST_ARRAYS = 100_000


def write_archive(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to one uncompressed file, in one step; the same arrays give the same bytes."""
    write_file(path, lambda out: np.savez(out, allow_pickle=False, **arrays))  # type: ignore[arg-type]


def read_archive(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of an uncompressed archive.

    Raises
    ------
    InputError
        If it is not an archive, is compressed or torn, or declares an array of another size than it holds.
    """
    source = Path(path)
    held = size_of(source)
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            if len(members) > MOST_ARRAYS or sum(member.file_size for member in members) > held:
                raise InputError(f"{source} declares more than its {held:,} bytes hold")
            return {member.filename.removesuffix(".npy"): _array(source, archive, member) for member in members}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, NotImplementedError) as error:
        raise InputError(f"{source} is not an archive of arrays ({reason(error)})") from None
    except (zipfile.BadZipFile, RuntimeError, SyntaxError, OverflowError, MemoryError) as error:
        raise InputError(f"{source} is not an archive of arrays ({reason(error)})") from None


def _array(source: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array; its header is compared with what there is before anything is allocated."""
    if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
        raise InputError(f"{source}: {member.filename!r:.60} is not an array, or compressed")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise InputError(f"{source}: {member.filename!r:.60} has an unknown format")
        shape, fortran, dtype = readers[version](stream)
        if dtype.hasobject or dtype.kind not in "biufU" or (fortran and len(shape) > 1):
            raise InputError(f"{source}: {member.filename!r:.60} holds {dtype}")
        data = stream.read()
    size = dtype.itemsize
    for length in shape:
        size *= length
    if size != len(data) or any(length < 0 for length in shape):
        raise InputError(
            f"{source}: {member.filename!r:.60} declares shape {shape!r:.60} but holds {len(data):,} bytes"
        )
    return np.frombuffer(data, dtype=dtype).reshape(shape) if size else np.empty(shape, dtype=dtype)
