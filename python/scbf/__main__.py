# SPDX-License-Identifier: Apache-2.0
"""``python -m scbf`` is the scbf command."""

from scbf._command import main

main()
