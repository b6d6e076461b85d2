# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fresh virtual environment with the pip that comes with its Python, which nobody has touched."""

from __future__ import annotations

# `venv` has pip install itself and setuptools, which takes five seconds; unpacked where it belongs it is the same pip,
# in a fifth of one. See Lib/ensurepip: the wheel lies beside it, or where a distribution keeps some (WHEEL_PKG_DIR).
_PROGRAM = """\
import ensurepip, os, sys, sysconfig, venv, zipfile
place, name = sys.argv[1], "pip-%s-py3-none-any.whl" % ensurepip.version()
bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or bundled, bundled]
wheels = [path for path in (os.path.join(folder, name) for folder in folders) if os.path.isfile(path)]
venv.create(place, symlinks=True, with_pip=not wheels)
if wheels:
    packages = os.path.join(place, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    zipfile.ZipFile(wheels[0]).extractall(packages)
"""


def fresh_pip(python: str, place: str) -> list[str]:
    """The command that makes it. Afterwards ``<place>/bin/python -I -m pip`` is that pip."""
    return [python, "-I", "-c", _PROGRAM, place]
