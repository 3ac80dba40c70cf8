# SPDX-License-Identifier: GPL-2.0-only
import sys

from lockstep.main import main

sys.exit(main())
