//! The `print fmt:` of an event: the tables in it that give numbers names, and the event as text.

mod expression;
mod lexer;
mod message;
mod render;
mod table;

pub(super) use message::{bprint, line};
pub(super) use render::Printer;
pub(super) use table::tables;
pub use table::{Printed, Table};
