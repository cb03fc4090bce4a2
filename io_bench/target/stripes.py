"""The layout of files on Lustre: how a directory's new files are striped over storage targets, said by `lfs`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from io_bench.errors import RunFailed
from sizing.errors import InvalidInput

_SECONDS_TO_ANSWER = 30.0
"""A guess: more than a metadata server under load takes for one request."""
_FIELD = re.compile(r"(?<!\S)(stripe_count|stripe_size|pattern|stripe_offset|pool):\s+(\S+)")
_NUM_COMPONENTS = re.compile(r"lcm_entry_count:\s+(\d+)")


def layout_of(path: Path) -> dict[str, str]:
    """Read how new files in a directory are laid out, by the names of `lfs getstripe -d`; nothing without `lfs`.

    A progressive layout has several components: then their number, and the whole output.
    """
    try:
        output = _done("lfs", "getstripe", "-d", str(path))
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_layout(output)


def parse_layout(output: str) -> dict[str, str]:
    """Parse the output of `lfs getstripe -d`.

    >>> parse_layout("stripe_count:  1 stripe_size:   1048576 pattern: raid0 stripe_offset: -1 pool: flash")
    {'stripe_count': '1', 'stripe_size': '1048576', 'pattern': 'raid0', 'stripe_offset': '-1', 'pool': 'flash'}
    """
    components = _NUM_COMPONENTS.search(output)
    if components:
        return {"num_components": components[1], "layout": " ".join(output.split())}
    return dict(_FIELD.findall(output))


def set_stripes(path: Path, *, count: int | None, stripe_bytes: int | None) -> None:
    """Stripe new files of a directory so from here on. Raises InvalidInput where `lfs` is not there or refuses."""
    command = setstripe_command(path, count=count, stripe_bytes=stripe_bytes)
    flag = "--stripe-count" if count is not None else "--stripe-size"
    value = count if count is not None else stripe_bytes
    try:
        _done(*command)
    except FileNotFoundError as error:
        rule, remedy = "needs lfs, Lustre's own command, which is not installed", "omit it, or install Lustre's client"
        raise InvalidInput.of(flag, rule, value=value, remedy=remedy) from error
    except subprocess.CalledProcessError as error:
        reason = " ".join(error.stderr.split()) or f"it ended with {error.returncode}"
        rule = f"must be taken by lfs setstripe ({reason})"
        raise InvalidInput.of(
            flag, rule, value=value, remedy="give a directory on Lustre, and stripes that it has"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"{' '.join(command)} failed: {error}.") from error


def setstripe_command(path: Path, *, count: int | None, stripe_bytes: int | None) -> list[str]:
    """Command line of `lfs setstripe`. -1 is all storage targets; None leaves what the parent directory has.

    Source: lustre-release, lustre/doc/lfs-setstripe.1: `-c` and `-S`, whose numbers are bytes.

    >>> setstripe_command(Path("/mnt/x"), count=-1, stripe_bytes=4 << 20)
    ['lfs', 'setstripe', '-c', '-1', '-S', '4194304', '/mnt/x']
    """
    stripes = [] if count is None else ["-c", str(count)]
    sizes = [] if stripe_bytes is None else ["-S", str(stripe_bytes)]
    return ["lfs", "setstripe", *stripes, *sizes, str(path)]


def _done(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS_TO_ANSWER).stdout  # noqa: S603 - our own words
