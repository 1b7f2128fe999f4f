//! Where the text of a probe event differs from its print format, in the kernel's manner.

use super::{
    expression::Expression,
    manner::{KernelManner, Manner},
};
use crate::event::Event;

/// The lowest address of the kernel.
const KERNEL_START: u64 = 1 << 63;

/// Appends the address of a probe, if the argument is one. The print format has it as a number; the kernel
/// prints a symbol, and `0x…` for a uprobe. At a return, the format has the function first, and the text
/// the place that it returns to.
pub(super) fn address(event: &Event<'_>, argument: &Expression, manner: Manner, out: &mut String) -> bool {
    let (Manner::Kernel(manner), Expression::Field(name)) = (manner, argument) else { return false };
    let (field, offset) = match name.as_str() {
        "__probe_ip" => ("__probe_ip", true),
        "__probe_func" => ("__probe_ret_ip", true),
        "__probe_ret_ip" => ("__probe_func", false),
        _ => return false,
    };
    let Some(address) = event.field(field).and_then(|value| value.as_u64()) else { return false };
    if address < KERNEL_START {
        out.push_str(&format!("{address:#x}"));
    } else {
        out.push_str(&KernelManner { offset, ..manner }.ip(event.metadata().symbols(), address));
    }
    true
}

/// Appends the text of a string that could not be read, if the argument is one, instead of the quote before
/// it. The caller leaves out the quote after it.
pub(super) fn fault(event: &Event<'_>, argument: &Expression, manner: Manner, out: &mut String) -> bool {
    let Expression::Call(name, arguments) = argument else { return false };
    let ("__get_str", [Expression::Name(field)], Some('"')) =
        (name.as_str(), arguments.as_slice(), out.chars().last())
    else {
        return false;
    };
    if !manner.is_kernel() || event.dynamic_size(field) != Some(0) {
        return false;
    }
    out.pop();
    out.push_str("(fault)");
    true
}
