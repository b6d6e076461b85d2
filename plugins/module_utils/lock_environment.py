# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an environment has installed, as exact pins, and what in it no index can hold. Only names and JSON are read."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.messages import redact_urls
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    distributions,
    environment_problem,
    site_packages,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, normalise

_LARGEST_URL = 64 * 1024
# What setuptools installed without making a wheel: a link to sources, or metadata beside copied files.
_NO_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)(?:-[^/]*)?\.(?:egg-link|egg-info|egg)")


def read_pins(path: str, vllm: str) -> tuple[dict[str, str], list[str]]:
    """The version of each distribution of an environment but vLLM, and a line for each that cannot be pinned.

    :param vllm: the pinned version of vLLM, which the environment must have for its other versions to belong to it.
    :raises LockError: there is no environment.
    """
    problem = environment_problem(path)
    if problem:
        raise LockError(
            f"no lock can be made from an environment: {problem}. Set vllm_environment to the one that serves, "
            "or make the lock with -e lock_from=wheel."
        )
    pins = {}
    problems = _without_wheels(path)
    installed = distributions(path)
    for name, versions in sorted(installed.items()):
        if len({canonical_version(version) for version in versions}) > 1:
            problems[name] = f"is there in several versions, {', '.join(sorted(versions))}: remove all but one"
        pins[name] = min(versions)
    own = pins.pop("vllm", None)
    problems.pop("vllm", None)
    if own is None or canonical_version(own) != canonical_version(vllm):
        problems["vllm"] = f"is {own or 'not there'}, and the pin is {vllm}: pin that one, or resolve from the wheel"
    lines = [f"{name} {problems[name]}" for name in sorted(problems)]
    return {name: version for name, version in pins.items() if name not in problems}, lines


def _without_wheels(path: str) -> dict[str, str]:
    """Distributions that came from a folder or a repository, with how: no index can be expected to have them."""
    found = {}
    for directory in site_packages(path):
        for entry in sorted(os.listdir(directory)):
            legacy = _NO_WHEEL.fullmatch(entry)
            how: Optional[str]
            if legacy:
                name = legacy["name"]
                how = f"was installed without a wheel ({entry})"
            else:
                name = entry.partition("-")[0]
                how = _local_origin(os.path.join(directory, entry)) if entry.endswith(".dist-info") else None
            if how:
                found[normalise(name)] = how
    return found


def _local_origin(dist_info: str) -> Optional[str]:
    """What ``direct_url.json`` (PEP 610) says of an origin that is no wheel's; None for a wheel's or without one."""
    try:
        said: Any = json.loads(read_file(os.path.join(dist_info, "direct_url.json"), _LARGEST_URL))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"does not tell where it is from: direct_url.json cannot be read ({error})"
    if not isinstance(said, dict):
        return "does not tell where it is from: direct_url.json holds no object"
    url = redact_urls(str(said.get("url")))
    folder = said.get("dir_info")
    if folder is not None:
        editable = isinstance(folder, dict) and folder.get("editable") is True
        return f"{'is an editable install of' if editable else 'was installed from the folder'} {url}"
    return f"was installed from the repository {url}" if "vcs_info" in said else None
