# Follows open.py: values, symbols that pointers point to, numbers of tasks.
#
# A path is parsed already, {"unary": ["dereference"], "symbol": NAME, "accesses": [{"member": NAME},
# {"index": N}]}, and only walked here: no part of it is ever evaluated as code.


def stripped(type_):
    """Returns the type without typedefs and qualifiers."""
    while type_.kind == TypeKind.TYPEDEF:
        type_ = type_.type
    return type_.unqualified()


def entry_of(prog, function, name):
    """Returns a function at its entry: in gcc's debug information it begins after the NOPs that ftrace
    patches (12.2, arm64)."""
    for symbol in prog.symbols(function.address_):
        if symbol.name == name:
            return drgn.Object(prog, function.type_, address=symbol.address)
    return function


def look_up(prog, name):
    try:
        obj = prog[name]
    except LookupError:
        obj = None
    if obj is not None:
        return entry_of(prog, obj, name) if obj.type_.kind == TypeKind.FUNCTION else obj
    if prog.symbols(name):
        raise Refused(f"`{name}` has no type: what it was made from has no debug information")
    raise Refused(f"there is no symbol `{name}` in this kernel and its modules")


def member_of(obj, name, shown):
    try:
        return obj.member_(name)
    except LookupError:
        type_ = stripped(obj.type_)
        if type_.kind == TypeKind.POINTER:
            type_ = stripped(type_.type)
        raise Refused(f"`{type_.type_name()}` has no member `{name}`, in `{shown}`")
    except TypeError:
        raise Refused(f"`{shown}` is `{obj.type_.type_name()}`, which has no members")


def element_of(obj, index, shown):
    type_ = stripped(obj.type_)
    if type_.kind not in (TypeKind.ARRAY, TypeKind.POINTER):
        raise Refused(f"`{shown}` is `{obj.type_.type_name()}`, which has no elements")
    # The last member of a struct may be a flexible array, of length 0 in its type.
    if type_.kind == TypeKind.ARRAY and type_.length and index >= type_.length:
        raise Refused(f"`{shown}` has {type_.length} elements, and [{index}] is out of range")
    return obj[index]


def unary(obj, operator, shown):
    if operator == "dereference":
        type_ = stripped(obj.type_)
        if type_.kind != TypeKind.POINTER:
            raise Refused(f"`{shown}` is `{obj.type_.type_name()}`, no pointer")
        # Not [0], which needs the size of the type: a function has none.
        return drgn.Object(obj.prog_, type_.type, address=obj.value_())
    try:
        return obj.address_of_()
    except ValueError:
        raise Refused(f"`{shown}` has no address")


def walk(prog, path):
    shown = path["symbol"]
    obj = look_up(prog, shown)
    for access in path["accesses"]:
        if "member" in access:
            obj = member_of(obj, access["member"], shown)
            shown += "." + access["member"]
        else:
            obj = element_of(obj, access["index"], shown)
            shown += f"[{access['index']}]"
    for operator in reversed(path["unary"]):
        obj = unary(obj, operator, shown)
        shown = ("*" if operator == "dereference" else "&") + shown
    return obj, shown


def value_of(prog, path):
    """Returns the value as text, and the symbols that it points to: exactly, and with an offset."""
    obj, shown = walk(prog, path)
    type_ = stripped(obj.type_)
    try:
        if type_.kind == TypeKind.FUNCTION:
            return pointer(prog, obj.address_)
        if type_.kind == TypeKind.POINTER:
            return pointer(prog, obj.value_())
        if type_.kind in (TypeKind.INT, TypeKind.BOOL, TypeKind.ENUM):
            return {"value": str(int(obj.value_())), "symbols": []}
        if type_.kind == TypeKind.ARRAY and stripped(type_.type).size == 1:
            return {"value": text_of(obj), "symbols": []}
    except FaultError as error:
        raise Refused(f"cannot read `{shown}`: {error}")
    except (TypeError, ValueError) as error:
        raise Refused(f"`{shown}`, `{obj.type_.type_name()}`, cannot be shown: {error}")
    raise Refused(f"`{shown}` is `{obj.type_.type_name()}`, no single value: name a member or an element")


def pointer(prog, address):
    # The mapping symbols `$d` and `$x` only distinguish data from instructions.
    symbols = [symbol for symbol in prog.symbols(address) if not symbol.name.startswith("$")]
    exact = sorted({symbol.name for symbol in symbols if symbol.address == address})
    near = [f"{symbol.name}+{address - symbol.address:#x}" for symbol in symbols]
    return {"value": f"{address:#x}", "symbols": exact, "near": near[:1]}


def tasks_of(prog, comm):
    """Returns the number of tasks with this name, including threads."""
    from drgn.helpers.linux.pid import for_each_task

    tasks = itertools.islice(for_each_task(prog), LIST_MAX)
    count = sum(1 for task in tasks if text_of(task.comm) == comm)
    return {"value": str(count), "symbols": []}


def question(prog, asked):
    try:
        if "path" in asked:
            return value_of(prog, asked["path"])
        return tasks_of(prog, asked["comm"])
    except Refused as refused:
        return {"refused": str(refused)}
    except FaultError as error:
        return {"refused": f"cannot read it: {error}"}
    except Exception as error:
        # A type that drgn cannot handle fails this question only.
        return {"refused": f"{type(error).__name__}: {error}"}


main(lambda prog, request: [question(prog, asked) for asked in request["questions"]])
