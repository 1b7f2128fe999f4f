"""Checks that a file is a report of version 5.3 of KCIDB, and prints how many of each object it has."""

import json
import sys

from kcidb_io.schema import V5_3

with open(sys.argv[1], encoding="utf-8") as file:
    report = V5_3.validate(json.load(file))
assert V5_3.is_compatible_exactly(report)
print({name: len(objects) for name, objects in sorted(report.items()) if name != "version"})
