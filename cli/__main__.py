"""`python -m cli`, which the launcher `rnic` runs."""

import sys

from cli.main import main

sys.exit(main())
