# Follows open.py: why a kernel panicked. The message, the task and its backtrace, the modules.

from drgn.helpers.linux.panic import panic_message

# The maximum number of frames of a backtrace, including inlined ones.
FRAMES_MAX = 200


def attempt(part):
    """Returns a part of the answer. If a corrupt dump lacks it, the other parts remain."""
    try:
        return {"found": part()}
    except Refused as refused:
        return {"missing": str(refused)}
    except Exception as error:
        return {"missing": f"{type(error).__name__}: {error}"}


def message(prog):
    text = panic_message(prog)
    if text is None:
        raise Refused("the kernel's log has no panic")
    return text.decode(errors="replace")


def module_of(prog, address):
    try:
        module = prog.module(address)
    except LookupError:
        return None
    return module.name if isinstance(module, drgn.RelocatableModule) else None


def place_of(frame):
    try:
        source = frame.source()
        filename, line = source.filename, source.line
    except LookupError:
        return None
    return {"function": frame.name, "file": filename, "line": line}


def symbol_of(prog, frame):
    """Returns the symbol of a function. Of several, such as `init_module` of a module's init function, the
    one with the name in its source."""
    inside = frame.pc - (0 if frame.interrupted else 1)
    symbols = prog.symbols(inside)
    own = [symbol for symbol in symbols if symbol.name == frame.name]
    return (own or symbols or [None])[0]


def frames_of(prog, trace):
    """Returns the frames, innermost first; inlined functions are places of the frame that contains them."""
    frames, places = [], []
    for frame in itertools.islice(trace, FRAMES_MAX):
        place = place_of(frame)
        if place:
            places.append(place)
        if frame.is_inline:
            continue
        symbol = symbol_of(prog, frame)
        frames.append({
            "symbol": symbol.name if symbol else frame.name,
            "offset": frame.pc - symbol.address if symbol else 0,
            "size": symbol.size if symbol else 0,
            "module": module_of(prog, frame.pc),
            "places": places,
        })
        places = []
    return frames


def death(prog):
    """Returns the task that panicked."""
    try:
        thread = prog.crashed_thread()
    except (ValueError, LookupError) as error:
        raise Refused(f"no task panicked: {error}")
    task = thread.object
    return {
        "comm": text_of(task.comm),
        "pid": task.pid.value_(),
        "cpu": prog["panic_cpu"].counter.value_(),
        "frames": frames_of(prog, thread.stack_trace()),
    }


def described(prog):
    with_source = {
        module.name
        for module in prog.modules()
        if isinstance(module, drgn.RelocatableModule) and module.debug_file_path
    }
    return [{"name": name, "source": name in with_source} for name, _ in loaded(prog)]


def post_mortem(prog, request):
    parts = {
        "message": attempt(lambda: message(prog)),
        "death": attempt(lambda: death(prog)),
        "modules": attempt(lambda: described(prog)),
    }
    if request["trace"]:
        parts["trace"] = attempt(lambda: ring_buffer(prog))
    return parts


main(post_mortem)
