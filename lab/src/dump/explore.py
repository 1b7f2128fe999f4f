# Leaves the terminal to drgn's prompt, on a dump: argv is PACKAGES VMCORE VMLINUX MODULE...

import logging
import sys

sys.path.insert(0, sys.argv[1])

import drgn
from drgn.cli import run_interactive, version_header

prog = drgn.Program()
prog.set_core_dump(sys.argv[2])
prog.set_enabled_debug_info_finders([])
# Of the modules that are offered most were not loaded, which it would say of each.
logging.getLogger("drgn").setLevel(logging.ERROR)
prog.load_debug_info(sys.argv[3:])
logging.getLogger("drgn").setLevel(logging.WARNING)
print(version_header())
run_interactive(prog)
