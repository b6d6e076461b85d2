# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read how long the last runs took."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_estimates
short_description: Read how long the last runs took
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Reads the run records that the controller keeps, and returns the median of the last five runs of a host that
    succeeded.
  - Where the host has none, the last five of its neighbours.
  - A record that cannot be read is passed over.
options:
  _terms:
    description: The host, as the inventory names it.
    required: true
  folder:
    description: Folder that holds a folder of records for each host.
    type: path
    required: true
  neighbours:
    description: Hosts whose runs say something for one that has none.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show what the next run will take
  ansible.builtin.debug:
    var: lookup('pristine.vllm.run_estimates', inventory_hostname, folder=run_record_controller_path)
"""

RETURN = r"""
_raw:
  description:
    - For each host a dict with C(phases) (seconds by name), C(downtime_seconds), C(load_seconds), C(overhead_seconds)
      (V(none) where nothing was measured), C(runs), C(hosts), and what it is taken from, C(source) in words
      and C(label) in few.
  type: list
  elements: dict
"""

from typing import Any, Optional

from ansible.plugins.lookup import LookupBase
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.history import forecast, read_records


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: list[str], variables: Optional[dict[str, Any]] = None, **kwargs: Any) -> list[dict[str, Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        folder, neighbours = self.get_option("folder"), self.get_option("neighbours")
        estimates = []
        for host in terms:
            own = read_records(folder, host)
            others = {} if own else {name: read_records(folder, name) for name in neighbours if name != host}
            estimates.append(forecast(own, others))
        return estimates
