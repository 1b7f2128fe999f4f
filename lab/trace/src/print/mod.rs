//! The `print fmt:` of an event: its tables that name numbers, and the event formatted as text.

mod expression;
mod lexer;
mod message;
mod render;
mod table;

pub(super) use message::{bprint, line};
pub(super) use render::Printer;
pub(super) use table::tables;
pub use table::{Printed, Table};
