# Between open.py and the program: the ring buffer of the top-level trace instance, as raw sub-buffers,
# with everything needed to decode them. Formats are the same as in tracefs, made from the same
# structures (kernel/trace/trace_events.c, f_show).

# The maximum number of sub-buffers in total; the newest of each CPU are taken.
SUB_BUFFERS_MAX = 4096

# The size of a task's name in bytes, and the exclusive upper limit of PIDs.
TASK_COMM_LEN = 16
PID_MAX = 1 << 22

# Flag bits in the pointers of the list of sub-buffers (kernel/trace/ring_buffer.c, RB_PAGE_HEAD and
# RB_PAGE_UPDATE), and the length bits of a commit field.
LINK_FLAGS = 3
COMMIT_LENGTH = (1 << 20) - 1


def has_member(obj, name):
    try:
        obj.member_(name)
        return True
    except LookupError:
        return False


def field_line(field):
    type_, name = text_of(field.type), text_of(field.name)
    bracket = -1 if type_.startswith("__data_loc") else type_.find("[")
    if bracket < 0:
        declared = f"{type_} {name}"
    elif has_member(field, "len") and field.len.value_():
        declared = f"{type_[:bracket]} {name}[{field.len.value_()}]"
    elif has_member(field, "len"):
        declared = f"{type_[:bracket]} {name}[]"
    else:
        # Before 5.17 the type contains the length.
        declared = f"{type_[:bracket]} {name}{type_[bracket:]}"
    offset, size = field.offset.value_(), field.size.value_()
    return f"\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:{int(bool(field.is_signed))};\n"


def fields_of(prog, head):
    # The newest field is first in the list.
    return "".join(
        field_line(field) for field in list_of(prog, head, "struct ftrace_event_field", "link", True)
    )


def field_list(prog, call):
    if not call.class_.get_fields:
        return call.class_.fields
    # Only the entry events of system calls have a function for it.
    return drgn.cast("struct syscall_metadata *", call.data).enter_fields


def name_of(prog, call):
    """Returns the name of an event, of a tracepoint or any other (include/linux/trace_events.h)."""
    tracepoint = prog.constant("TRACE_EVENT_FL_TRACEPOINT").value_()
    if call.flags.value_() & tracepoint:
        return text_of(call.tp.name)
    return text_of(call.name)


class Call:
    """A `struct trace_event_call *`; `class_` stands for its member `class`, a keyword in Python."""

    def __init__(self, call):
        self.call = call

    def __getattr__(self, name):
        return self.call.member_("class" if name == "class_" else name)


def format_of(prog, call, common):
    text = f"name: {name_of(prog, call)}\nID: {call.event.type.value_()}\nformat:\n{common}\n"
    text += fields_of(prog, field_list(prog, call))
    print_format = text_of(call.print_fmt, 1 << 16) if call.print_fmt else ""
    return text + f"\nprint fmt: {print_format}\n"


def formats(prog):
    """Returns the formats of all events, each with its system."""
    common = fields_of(prog, prog["ftrace_common_fields"])
    calls = map(Call, list_of(prog, prog["ftrace_events"], "struct trace_event_call", "list"))
    return [[text_of(call.class_.system), format_of(prog, call, common)] for call in calls]


def header_page(prog, data_size):
    """Returns the contents of `events/header_page`."""
    type_ = prog.type("struct buffer_data_page")
    at = {member.name: member for member in type_.members}
    line = "\tfield: {};\toffset:{};\tsize:{};\tsigned:{};\n".format
    commit = drgn.sizeof(prog.type("local_t"))
    offset = at["commit"].offset
    return (
        line("u64 timestamp", at["time_stamp"].offset, 8, 0)
        + line("local_t commit", offset, commit, 1)
        + line("char data", at["data"].offset, data_size, 1)
    )


def ring(first):
    """Yields the sub-buffers of the ring, beginning with `first`."""
    page = first
    for _ in range(LIST_MAX):
        yield page
        link = page.list.next.value_() & ~LINK_FLAGS
        page = drgn.container_of(
            drgn.Object(page.prog_, "struct list_head *", link), "struct buffer_page", "list"
        )
        if page.value_() == first.value_():
            return
    raise Refused("the list of sub-buffers has no end")


def is_head(page):
    """Returns whether a page is the head, as flagged in the previous one's pointer to it."""
    before = page.list.prev.value_() & ~LINK_FLAGS
    return bool(drgn.Object(page.prog_, "struct list_head *", before).next.value_() & LINK_FLAGS)


def raw(prog, page, size):
    return bytearray(prog.read(page.page.value_(), size))


def reader(prog, buffer, size):
    """Returns the unread rest of the reader page, as ring_buffer_read_page() would return it."""
    page = buffer.reader_page
    data = raw(prog, page, size)
    type_ = prog.type("struct buffer_data_page")
    at = {member.name: member.offset for member in type_.members}
    start = at["data"]
    committed = page.page.commit.a.counter.value_() & COMMIT_LENGTH
    read = page.read.value_()
    if read >= committed:
        return None
    if read:
        data[start:] = data[start + read :] + bytes(read)
        data[0:8] = buffer.read_stamp.value_().to_bytes(8, "little")
        width = drgn.sizeof(prog.type("local_t"))
        data[at["commit"] : at["commit"] + width] = (committed - read).to_bytes(width, "little")
    return data


def sub_buffers(prog, buffer, size, most):
    """Returns the unread sub-buffers of one CPU, oldest first."""
    left = reader(prog, buffer, size)
    found = [left] if left else []
    commit_page = buffer.commit_page.value_()
    if commit_page == buffer.reader_page.value_():
        return found
    head = next((page for page in ring(buffer.head_page) if is_head(page)), None)
    if head is None:
        raise Refused("the ring has no head")
    for page in ring(head):
        found.append(raw(prog, page, size))
        if page.value_() == commit_page:
            break
    return found[-most:]


def data_size(prog, buffer):
    # Before 6.8 a sub-buffer is a page.
    order = buffer.subbuf_order.value_() if has_member(buffer, "subbuf_order") else 0
    header = prog.type("struct buffer_data_page").member("data").offset
    return (prog["PAGE_SIZE"].value_() << order) - header


def comms(prog):
    """Returns `saved_cmdlines`: the existing tasks, and the saved names of others."""
    from drgn.helpers.linux.pid import for_each_task

    names = {}
    tasks = itertools.islice(for_each_task(prog), LIST_MAX)
    for task in tasks:
        names[task.pid.value_()] = text_of(task.comm)
    try:
        saved = prog["savedcmd"]
        for index in range(min(saved.cmdline_num.value_(), LIST_MAX)):
            pid = saved.map_cmdline_to_pid[index].value_()
            comm = saved.saved_cmdlines[TASK_COMM_LEN * index].address_of_()
            # Unused entries have no valid PID.
            if 0 < pid < PID_MAX:
                names[pid] = text_of(drgn.cast("char *", comm), TASK_COMM_LEN)
    except (LookupError, AttributeError, FaultError):
        # If the kernel keeps them elsewhere, only the names of existing tasks are known.
        pass
    return "".join(f"{pid} {name}\n" for pid, name in sorted(names.items()) if pid > 0 and name)


def module_symbols(prog):
    """Returns the functions of modules in the format of /proc/kallsyms."""
    ranges = [
        (start, end, module.name)
        for module in prog.modules()
        if isinstance(module, drgn.RelocatableModule)
        for start, end in module.address_ranges or []
    ]
    lines = []
    for symbol in prog.symbols() if ranges else []:
        if symbol.kind == drgn.SymbolKind.FUNC:
            for start, end, name in ranges:
                if start <= symbol.address < end:
                    lines.append(f"{symbol.address:016x} t {symbol.name}\t[{name}]\n")
    return "".join(lines)


def printk_formats(prog):
    """Returns `printk_formats`: the strings that records only point to."""
    addresses = []
    for section in ("__trace_bprintk_fmt", "__tracepoint_str"):
        try:
            start = prog.symbol(f"__start_{section}").address
            stop = prog.symbol(f"__stop_{section}").address
        except LookupError:
            continue
        count = min((stop - start) // 8, LIST_MAX)
        addresses += [prog.read_u64(start + 8 * index) for index in range(count)]
    try:
        of_modules = list_of(prog, prog["trace_bprintk_fmt_list"], "struct trace_bprintk_fmt", "list")
        addresses += [each.fmt.value_() for each in of_modules]
    except LookupError:
        pass
    escapes = str.maketrans({"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"})
    texts = {address: prog.read_c_string(address, max_size=4096) for address in addresses if address}
    lines = (
        f'0x{address:x} : "{text.decode(errors="replace").translate(escapes)}"\n'
        for address, text in texts.items()
    )
    return "".join(lines)


def clock(prog):
    index = prog["global_trace"].clock_id.value_()
    return text_of(prog["trace_clocks"][index].name)


def ring_buffer(prog):
    trace = prog["global_trace"].array_buffer.buffer
    size = data_size(prog, trace)
    start = prog.type("struct buffer_data_page").member("data").offset
    # Newer stable kernels, such as 6.12.117, do not keep the number.
    cpus = (trace.cpus if has_member(trace, "cpus") else prog["nr_cpu_ids"]).value_()
    most = max(1, SUB_BUFFERS_MAX // max(1, cpus))
    pages = []
    for cpu in range(min(cpus, SUB_BUFFERS_MAX)):
        buffer = trace.buffers[cpu]
        if buffer:
            pages += [[cpu, page.hex()] for page in sub_buffers(prog, buffer, start + size, most)]
    return {
        "cpus": cpus,
        "header_page": header_page(prog, size),
        "formats": formats(prog),
        "saved_cmdlines": comms(prog),
        "printk_formats": printk_formats(prog),
        "symbols": module_symbols(prog),
        "clock": clock(prog),
        "pages": pages,
    }
