"""Write the hashes of the respondent's own script and style into its content-security policy.

python tools/pages.py           after its script or style was changed
python tools/pages.py --check   whether they are right
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from noisewise.collector.web import inline_hashes

PAGES = Path(__file__).parents[1] / "src/noisewise/collector/pages"


def sealed(body: bytes) -> bytes:
    """The page with the policy that its script and style need."""
    for tag, name in (("script", b"script-src"), ("style", b"style-src")):
        hashes = " ".join(inline_hashes(body, tag)).encode()
        body = re.sub(name + rb" [^;]*;", name + b" " + hashes + b";", body, count=1)
    return body


def main() -> int:
    page = PAGES / "respond.html"
    body = page.read_bytes()
    if sealed(body) == body:
        return 0
    if "--check" in sys.argv:
        print(f"{page.name}: its policy does not name its own script and style; run tools/pages.py")
        return 1
    page.write_bytes(sealed(body))
    return 0


if __name__ == "__main__":
    sys.exit(main())
