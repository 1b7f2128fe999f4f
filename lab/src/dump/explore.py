# Runs drgn's prompt on a dump. argv is PACKAGES VMCORE VMLINUX MODULE...

import logging
import sys

sys.path.insert(0, sys.argv[1])

import drgn
from drgn.cli import run_interactive, version_header

prog = drgn.Program()
prog.set_core_dump(sys.argv[2])
prog.set_enabled_debug_info_finders([])
# Most of the given modules were not loaded; drgn would warn about each.
logging.getLogger("drgn").setLevel(logging.ERROR)
prog.load_debug_info(sys.argv[3:])
logging.getLogger("drgn").setLevel(logging.WARNING)
print(version_header())
run_interactive(prog)
