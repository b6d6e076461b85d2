# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An index that misbehaves: bad_index.py FOLDER. How, the file /run/fault says at every request.

truncated   a wheel's answer ends in its middle, with the length of the whole announced
corrupt     a byte in the middle of a wheel is another one
moved       everything is somewhere else: 404
"""

from __future__ import annotations

import functools
import http.server
import io
import sys
from pathlib import Path
from typing import BinaryIO

FAULT = Path("/run/fault")


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send_head(self) -> BinaryIO | io.BytesIO | None:
        fault = FAULT.read_text(encoding="utf-8").strip() if FAULT.exists() else ""
        if fault == "moved":
            self.send_error(404, "moved")
            return None
        path = Path(self.translate_path(self.path))
        if not (fault and path.name.startswith("vllm-") and path.suffix == ".whl" and path.is_file()):
            return super().send_head()
        data = path.read_bytes()
        middle = len(data) // 2
        self.send_response(200)
        self.send_header("Content-Type", "application/zip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault == "truncated":
            self.close_connection = True
            return io.BytesIO(data[:middle])
        return io.BytesIO(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])


def main() -> None:
    handler = functools.partial(Handler, directory=sys.argv[1])
    http.server.ThreadingHTTPServer(("", 80), handler).serve_forever()


if __name__ == "__main__":
    main()
