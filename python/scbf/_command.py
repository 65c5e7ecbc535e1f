# SPDX-License-Identifier: Apache-2.0
"""The scbf command, which comes with the package."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command, with the arguments of this process."""
    command = Path(__file__).with_name("bin") / "scbf"
    os.execv(command, ["scbf", *sys.argv[1:]])


if __name__ == "__main__":
    main()
