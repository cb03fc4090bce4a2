"""What is looked at in a target that is a URL. Each check is a function of a run's place of its own."""

from __future__ import annotations

import time

from io_bench.preflight.findings import Finding
from io_bench.preflight.probe import SMALL_BYTES
from io_bench.target.object_store.url_target import UrlTarget
from io_bench.target.run_files import RunFiles
from sizing.units import bytes_text

_SMALL, _LARGE, _BEGUN = "small", "large", "begun"
PROBE_NAMES = (_SMALL, _LARGE, _BEGUN)


def endpoint(target: UrlTarget) -> Finding:
    """Where the requests go."""
    described = target.description()
    return Finding("store", f"{described['type']} at {described['endpoint'] or 'its default endpoint'}")


def space(needed_bytes: int) -> Finding:
    """What is needed; object stores do not report what is free."""
    found = f"unknown, {bytes_text(needed_bytes)} needed"
    return Finding("space", found, "note", "Object stores do not report free space. Ask the operator for the quota.")


def put_and_get(files: RunFiles) -> Finding:
    """A small object, there and back."""
    seconds = _round_trip(files, _SMALL, bytes(SMALL_BYTES))
    return Finding("put and get", f"works, round trip {1e3 * seconds:.3g} ms")


def parts(files: RunFiles, *, part_bytes: int) -> Finding:
    """An object in two parts, read back by ranges."""
    _round_trip(files, _LARGE, bytes(range(256)) * (part_bytes // 256) + b"tail")
    return Finding("parts and ranges", f"work, in parts of {bytes_text(part_bytes)}")


def listing(files: RunFiles) -> Finding:
    """Whether what was put is listed."""
    missing = {_SMALL, _LARGE} - set(files.names())
    if missing:
        advice = "`ckpt-bench clean` cannot find objects that are not listed."
        return Finding("listing", f"lacks {' and '.join(sorted(missing))}", "warning", advice)
    return Finding("listing", "lists the new objects")


def removal(files: RunFiles, *, part_bytes: int) -> Finding:
    """Removing objects, and giving up one that was begun."""
    files.create(_BEGUN).write(bytes(part_bytes + 1))
    files.remove_created()
    left = set(PROBE_NAMES) & set(files.names())
    if left:
        advice = (
            "Runs will leave objects behind. Check the permission to delete, and versioning or locks of the bucket."
        )
        return Finding("removal", f"leaves {', '.join(sorted(left))}", "warning", advice)
    return Finding("removal", "objects can be deleted and uploads aborted")


def _round_trip(files: RunFiles, name: str, data: bytes) -> float:
    """Seconds to write and read an object. Raises OSError where it comes back as another."""
    started = time.perf_counter()
    with files.create(name) as stream:
        stream.write(data)
    with files.open(name) as stream:
        found = stream.read()
    if found != data:
        raise OSError(f"the data read from {files.location(name)} differs from the data written")
    return time.perf_counter() - started
