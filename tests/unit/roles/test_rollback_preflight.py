# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rollback asks of a host, run by the real Ansible on this machine: to serve, and nothing that only builds."""

from __future__ import annotations

import json
import os
import pathlib

from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_release
from ansible_collections.pristine.vllm.tests.unit.roles.test_nightly_wheel import Host, host

__all__ = ["host"]

PHASE = pathlib.Path(__file__).resolve().parents[3] / "playbooks/phases/preflight_rollback.yml"


def test_what_only_a_build_needs_refuses_no_rollback(host: Host) -> None:
    live = fake_release(host.root, "r-2", "2026-11-02T00:00:00Z")
    (host.root / "current").symlink_to("releases/r-2")
    os.unlink(live / "bin" / "python")
    playbook = host.base / "play.yml"
    tasks = [
        {"ansible.builtin.import_role": {"name": "pristine.vllm.run_record"}},
        {"ansible.builtin.import_tasks": str(PHASE)},
    ]
    playbook.write_text(json.dumps([{"hosts": "vllm_hosts", "gather_facts": False, "tasks": tasks}]))
    said = host.play(
        str(playbook),
        "--check",
        vllm_python="/nonexistent/python3",
        vllm_model_path=str(host.base / "no-model"),
        vllm_gpu_count=0,
        vllm_unit="vllm-of-a-test",
        gpu_host_min_memory_gb=0,
        run_record_controller_path=str(host.base / "records"),
    )
    assert said.startswith("2\n"), said
    words = " ".join(said.split())
    # Without a model nothing serves; that is asked for all the same.
    assert "no-model" in words
    assert "what serves is damaged: it has no bin/python that runs" in words
    blockers = words.partition("Refuse, with every blocker at once")[2]
    assert "no-model" in blockers
    for word in ("[interpreter]", "[disk]", "[environment]"):
        assert word not in blockers, blockers
