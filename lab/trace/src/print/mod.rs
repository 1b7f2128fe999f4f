//! The `print fmt:` of an event: its tables that name numbers, and the event formatted as text.

mod expression;
mod lexer;
mod macros;
mod manner;
mod message;
mod probe;
mod render;
mod table;

pub(super) use manner::{HASHED, KernelManner, Manner, SIZE};
pub(super) use message::{bprint, filled, line};
pub(super) use render::Printer;
pub(super) use table::tables;
pub use table::{Printed, Table};
