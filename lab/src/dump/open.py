# Opens a dump for the program that follows this one. Both run under drgn in a bare interpreter, with the
# request as a JSON object on stdin and the answer on stdout. A dump is not trusted: its lists may be
# cyclic and its pointers may lead anywhere, so every walk is bounded.

import itertools
import json
import resource
import sys

sys.path.insert(0, sys.argv[1])

import drgn
from drgn import FaultError, TypeKind

# The memory limit of the interpreter, in bytes, whatever is in the dump.
MEMORY_MAX = 8 << 30

# The maximum number of elements of a list in the kernel.
LIST_MAX = 65536


class Refused(Exception):
    """A question without an answer, with the reason for the user."""


def list_of(prog, head, type_name, member, backwards=False):
    """Yields the elements of a struct list_head, up to a limit."""
    entry = head.prev if backwards else head.next
    for _ in range(LIST_MAX):
        if entry.value_() == head.address_of_().value_():
            return
        yield drgn.container_of(entry, type_name, member)
        entry = entry.prev if backwards else entry.next
    raise Refused(f"a list of `{type_name}` has no end")


def text_of(obj, limit=4096):
    """Returns a C string from a pointer or an array."""
    type_ = obj.type_
    while type_.kind == TypeKind.TYPEDEF:
        type_ = type_.type
    if type_.kind == TypeKind.ARRAY:
        return obj.string_().decode(errors="replace")
    return obj.prog_.read_c_string(obj.value_(), max_size=limit).decode(errors="replace")


def loaded(prog):
    """Returns the loaded modules: name, `struct module *`."""
    modules = list_of(prog, prog["modules"], "struct module", "list")
    return [(text_of(module.name), module) for module in modules]


def open_dump(request):
    """Returns the drgn program of a dump, with the symbols of its kernel and modules."""
    prog = drgn.Program()
    try:
        prog.set_core_dump(request["vmcore"])
    except (OSError, ValueError) as error:
        raise Refused(f"it is not a kernel dump: {error}")
    # Search for no other files, neither on this host nor on a network.
    prog.set_enabled_debug_info_finders([])
    prog.load_debug_info([request["vmlinux"]])
    if prog.main_module().debug_file_path is None:
        raise Refused(f"`{request['vmlinux']}` is not the build of the kernel in the dump")
    candidates = request["modules"]
    # Of several builds of a module, drgn uses the one whose build ID is in the dump.
    paths = [path for name, _ in loaded(prog) for path in candidates.get(name, [])]
    if paths:
        prog.load_debug_info(paths)
    return prog


def main(answer):
    """Answers the request on stdin with `answer(prog, request)`."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    request = json.load(sys.stdin)
    try:
        reply = {"answer": answer(open_dump(request), request)}
    except Refused as refused:
        reply = {"refused": str(refused)}
    except Exception as error:
        # A corrupt dump is not a bug of this program, but the message shows where it failed.
        line = error.__traceback__
        while line.tb_next:
            line = line.tb_next
        reply = {"refused": f"{type(error).__name__} in line {line.tb_lineno}: {error}"}
    json.dump(reply, sys.stdout)
