# Opens a dump, for the program behind this one. Both run under drgn in an interpreter that has nothing
# else: a JSON object on stdin says what is asked, one on stdout answers. The dump is a guest's word: its
# lists may be circles and its pointers may lead anywhere, so every walk has an end.

import itertools
import json
import resource
import sys

sys.path.insert(0, sys.argv[1])

import drgn
from drgn import FaultError, TypeKind

# What an interpreter may take, whatever a dump has it read.
MEMORY_MAX = 8 << 30

# The most elements of one of the kernel's lists.
LIST_MAX = 65536


class Refused(Exception):
    """A question without an answer; its text is for the person who asked."""


def list_of(prog, head, type_name, member, backwards=False):
    """The elements of a struct list_head, up to a limit."""
    entry = head.prev if backwards else head.next
    for _ in range(LIST_MAX):
        if entry.value_() == head.address_of_().value_():
            return
        yield drgn.container_of(entry, type_name, member)
        entry = entry.prev if backwards else entry.next
    raise Refused(f"a list of `{type_name}` has no end")


def text_of(obj, limit=4096):
    """A C string behind a pointer or in an array."""
    type_ = obj.type_
    while type_.kind == TypeKind.TYPEDEF:
        type_ = type_.type
    if type_.kind == TypeKind.ARRAY:
        return obj.string_().decode(errors="replace")
    return obj.prog_.read_c_string(obj.value_(), max_size=limit).decode(errors="replace")


def loaded(prog):
    """The modules: name, `struct module *`."""
    modules = list_of(prog, prog["modules"], "struct module", "list")
    return [(text_of(module.name), module) for module in modules]


def open_dump(request):
    """The program of a dump, with the symbols of its kernel and of its modules."""
    prog = drgn.Program()
    try:
        prog.set_core_dump(request["vmcore"])
    except (OSError, ValueError) as error:
        raise Refused(f"it is no dump of a kernel: {error}")
    # What is not named here is not looked for, neither on this host nor on a network.
    prog.set_enabled_debug_info_finders([])
    prog.load_debug_info([request["vmlinux"]])
    if prog.main_module().debug_file_path is None:
        raise Refused(f"`{request['vmlinux']}` is another build than the kernel in the dump")
    candidates = request["modules"]
    # Of several builds of a module, drgn takes the one whose build id the dump has.
    paths = [path for name, _ in loaded(prog) for path in candidates.get(name, [])]
    if paths:
        prog.load_debug_info(paths)
    return prog


def main(answer):
    """Answers the request on stdin by `answer(prog, request)`."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    request = json.load(sys.stdin)
    try:
        reply = {"answer": answer(open_dump(request), request)}
    except Refused as refused:
        reply = {"refused": str(refused)}
    except Exception as error:
        # A dump that does not hold what it should is no fault of the program, but it is told where it was.
        line = error.__traceback__
        while line.tb_next:
            line = line.tb_next
        reply = {"refused": f"{type(error).__name__} in line {line.tb_lineno}: {error}"}
    json.dump(reply, sys.stdout)
