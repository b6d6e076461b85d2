# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the link that says which release is live leads where it should."""

from __future__ import annotations

import os
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, ReleaseError


def link_findings(root: str, expected: Optional[str] = None) -> list[Finding]:
    """What is wrong with ``<root>/current``.

    :param expected: the id of the release, or the path of the environment, that it should lead to. None when nobody
        knows; then it must lead to a finished release or to an environment.
    """
    layout = Layout(root)
    path = os.path.join(layout.root, "current")
    try:
        place = layout.link("current")
    except ReleaseError as error:
        return [Finding("link", path, "modified", detail=str(error))]
    if place is None:
        return [Finding("link", path, "missing", detail="no release is live")]
    if not os.path.isdir(path):
        return [Finding("link", path, "dangling", detail=f"leads to {place.path}, which is not there")]
    if expected is not None and expected not in (place.id, place.path):
        return [Finding("link", path, "redirected", detail=f"leads to {place.path}, expected is {expected}")]
    if place.id is not None and place.metadata is None:
        return [Finding("link", path, "redirected", detail=f"leads to {place.path}, a release that was never finished")]
    if place.id is None and not os.path.isfile(os.path.join(path, "pyvenv.cfg")):
        return [Finding("link", path, "redirected", detail=f"leads to {place.path}, which is no environment")]
    return []
