# Leaves the terminal to drgn's prompt, on a dump: argv is PACKAGES VMCORE VMLINUX MODULE...

import sys

sys.path.insert(0, sys.argv[1])

import drgn
from drgn.cli import run_interactive, version_header

prog = drgn.Program()
prog.set_core_dump(sys.argv[2])
prog.set_enabled_debug_info_finders([])
prog.load_debug_info(sys.argv[3:])
print(version_header())
run_interactive(prog)
