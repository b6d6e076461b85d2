# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A home folder for ansible-test, which keeps of the environment only HOME and PATH.

Usage: ansible_test_home.py FOLDER
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from ansible_test._internal.python_requirements import get_venv_packages

# ansible-test downloads get-pip.py unless its cache holds it, from a host that a closed network does not reach.
# This takes its place: Python's own bundled pip, which then installs the version that was asked for. Both in children:
# ansible-test imports the file for its settings, and a pip cannot replace itself while it runs.
# It makes a dozen environments; what was installed in the first of them is copied into the others.
GET_PIP = """\
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

FLAGS_OF_GET_PIP = {"--no-setuptools", "--no-wheel"}


def main():
    wanted = [word for word in sys.argv[1:] if word not in FLAGS_OF_GET_PIP]
    (version,) = (word.partition("==")[2] for word in wanted if word.startswith("pip=="))
    names = ["pip", f"pip-{version}.dist-info"]
    kept = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"pip-{version}-{sys.implementation.cache_tag}")
    site = sysconfig.get_path("purelib")
    if os.path.isdir(kept):
        copy(names, kept, site)
        return 0
    python = [sys.executable, "-m"]
    subprocess.run([*python, "ensurepip", "--default-pip"], check=True)
    code = subprocess.run([*python, "pip", "install", *wanted]).returncode
    if code == 0:
        new = tempfile.mkdtemp(dir=os.path.dirname(kept))
        copy(names, site, new)
        try:
            os.rename(new, kept)
        except OSError:
            shutil.rmtree(new)  # Another one was faster.
    return code


def copy(names, source, target):
    for name in names:
        shutil.copytree(os.path.join(source, name), os.path.join(target, name))


if __name__ == "__main__":
    sys.exit(main())
"""


def pip(*arguments: str) -> str:
    """What this environment's pip prints."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pip_settings() -> str:
    """This machine's pip settings, from PIP_* variables and every pip.conf, as one pip.conf."""
    settings: dict[str, str] = {}
    for line in pip("config", "list").splitlines():
        key, _equals, value = line.partition("=")
        settings[key.rpartition(".")[2]] = ast.literal_eval(value)
    # Where wheels are kept between runs; below the real home, which ansible-test does not see.
    settings.setdefault("cache-dir", pip("cache", "dir").strip())
    rows = [f"{key} = {value}".replace("\n", "\n    ") for key, value in sorted(settings.items())]
    return "\n".join(["[global]", *rows, ""])


class ThisPython:
    """The one member of ansible-test's PythonConfig that the choice of pip looks at."""

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"


def main() -> None:
    home = Path(sys.argv[1])
    cache = home / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    version = get_venv_packages(ThisPython())["pip"]
    (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(GET_PIP)
    # It may hold an index's credentials.
    os.umask(0o077)
    configuration = home / ".config/pip/pip.conf"
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text(pip_settings())


if __name__ == "__main__":
    main()
