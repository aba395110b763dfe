# SPDX-License-Identifier: Apache-2.0
"""`python -m cprof` is the command `cprof`."""

import sys

from cprof.tool import main

if __name__ == "__main__":
    sys.exit(main())
