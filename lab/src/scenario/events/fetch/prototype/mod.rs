//! `do_sys_openat2(int dfd, string filename)` → a probe on that function and its fetch arguments.
//!
//! In the spirit of the function-based events that were proposed for the kernel in 2018:
//!
//! ```text
//! prototype = FUNCTION "(" [ parameter { ( "," | "|" ) parameter } ] ")"
//! parameter = "NULL" | type NAME { "+" N | "[" N "]" }
//! type      = WORD… { "*" | "__user" } [ "[" N "]" ]
//! ```
//!
//! `NULL` leaves a parameter out, and `|` in place of a comma adds another field of the same one. A type
//! is one of C's, or one of a fetch argument: `s32`, `u64`, `x64`, `x8[6]`, `string`, `ustring`, `symbol`,
//! `ptr`. A suffix of a name treats the parameter as an address: `+16` adds 16 bytes, `[2]` fetches the
//! third element there; the last `[N]` indexes the type, earlier ones index pointers. Strings and arrays
//! are at an address in any case, so `string skdev+16[0][0]` and `string skdev+16[0]` differ by one
//! pointer.

mod ctype;
mod parse;

pub(crate) use parse::Parameter;

use super::{PathError, fetch};
use crate::scenario::{ArgName, Args, FetchArg, FromText, from_text};
use ctype::CType;
use std::ops::Range;

/// A function's prototype in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    text: String,
    function: String,
    args: Args,
    /// The parameters, to be checked against the kernel's BTF.
    parameters: Vec<Parameter>,
}

impl Prototype {
    /// The function.
    pub fn function(&self) -> &str {
        &self.function
    }

    /// The fetch arguments, in the kernel's syntax.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// Like [`Prototype::args`], but mutable.
    pub fn args_mut(&mut self) -> &mut Args {
        &mut self.args
    }

    /// The prototype as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parameters as written.
    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
}

impl Parameter {
    /// Returns the fetch argument, such as `+0(+16($arg1)):string`.
    fn fetch_arg(&self) -> Result<String, PathError> {
        let mut base = format!("$arg{}", self.number);
        let mut offset = 0_i64;
        let fails = |message: &str| PathError { message: message.to_owned(), at: self.at.clone() };
        let far = || fails("the offset overflows");
        let last = self.behind.len().saturating_sub(1);
        let mut at_value = false;
        for (index, behind) in self.behind.iter().enumerate() {
            let (bytes, pointer) = match *behind {
                Behind::Offset(bytes) => (bytes, false),
                Behind::Index(number) if index == last => {
                    at_value = true;
                    (number.checked_mul(self.of.size()).ok_or_else(far)?, false)
                }
                Behind::Index(number) => (number.checked_mul(8).ok_or_else(far)?, true),
            };
            offset = i64::try_from(bytes).ok().and_then(|bytes| offset.checked_add(bytes)).ok_or_else(far)?;
            if pointer {
                base = fetch(&base, std::mem::take(&mut offset), false);
            }
        }
        let format = self.of.format();
        if at_value || self.of.is_in_memory() {
            return Ok(format!("{}:{format}", fetch(&base, offset, self.of.is_user())));
        }
        match self.behind.is_empty() {
            true => Ok(format!("{base}:{format}")),
            false => Err(fails("an offset alone fetches nothing, expected `[0]` at the end")),
        }
    }
}

/// A suffix of a parameter's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// `+16`
    Offset(u64),
    /// `[2]`
    Index(u64),
}

impl FromText for Prototype {
    const EXPECTED: &'static str = "a prototype such as do_sys_openat2(int dfd, string filename)";

    fn from_text(text: &str) -> Result<Prototype, String> {
        let shown = |error: PathError| error.shown(text);
        let (function, parameters) = parse::prototype(text).map_err(shown)?;
        let mut args = Args::default();
        for parameter in &parameters {
            let told = |message: String| shown(PathError { message, at: parameter.at.clone() });
            let name = ArgName::from_text(&parameter.name).map_err(told)?;
            let fetch = FetchArg::from_text(&parameter.fetch_arg().map_err(shown)?).map_err(told)?;
            if args.0.insert(name, fetch).is_some() {
                return Err(told(format!("`{}` is there twice", parameter.name)));
            }
        }
        Ok(Prototype { text: text.to_owned(), function, args, parameters })
    }
}

from_text!(Prototype, {
    "type": "string",
    "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,62} *\\(.*\\)$",
    "examples": ["do_sys_openat2(int dfd, string filename)", "ip_rcv(string skdev+16[0][0] | x8[6] skperm+16[0]+558)"],
});

/// A position in the text.
type At = Range<usize>;

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(text: &str) -> String {
        let prototype = Prototype::from_text(text).unwrap_or_else(|error| panic!("{error}"));
        let args = prototype.args().0.iter().map(|(name, fetch)| format!(" {name}={fetch}"));
        prototype.function().to_owned() + &args.collect::<String>()
    }

    #[test]
    fn prototypes_become_fetch_args() {
        let check = |text: &str, expect: &str| assert_eq!(fetched(text), expect, "{text}");
        check(
            "do_sys_openat2(int dfd, string filename)",
            "do_sys_openat2 dfd=$arg1:s32 filename=+0($arg2):string",
        );
        check("f()", "f");
        check(" f ( ) ", "f");
        check("f(s8 a,u16 b , x32 c,x64 d)", "f a=$arg1:s8 b=$arg2:u16 c=$arg3:x32 d=$arg4:x64");
        check(
            "f(unsigned int a, long b, unsigned c, size_t d)",
            "f a=$arg1:u32 b=$arg2:s64 c=$arg3:u32 d=$arg4:u64",
        );
        check(
            "f(const char *a, char __user *b, const char * __user c)",
            "f a=+0($arg1):string b=+u0($arg2):ustring c=+u0($arg3):ustring",
        );
        check("f(ustring a, symbol b, ptr c)", "f a=+u0($arg1):ustring b=$arg2:symbol c=$arg3:x64");
        check("f(struct file *file, void *x, char **y)", "f file=$arg1:x64 x=$arg2:x64 y=$arg3:x64");
        // Two fields of the first, none of the second.
        check("f(x64 a | s32 b, NULL, bool c)", "f a=$arg1:x64 b=$arg1:s32 c=$arg3:u8");
        check("f(u64 buf[0], u32 b[3])", "f buf=+0($arg1):u64 b=+12($arg2):u32");
        check("f(u64 __user buf[0])", "f buf=+u0($arg1):u64");
        check("f(x8[6] mac+0x22e)", "f mac=+558($arg1):x8[6]");
        check("f(s32 id+8[0] | s32 deep+8[1][2]+4[0])", "f id=+8($arg1):s32 deep=+4(+16(+16($arg1))):s32");
        // From the cover letter of that proposal.
        check(
            "ip_rcv(string skdev+16[0][0] | x8[6] skperm+16[0]+558)",
            "ip_rcv skdev=+0(+16($arg1)):string skperm=+558(+16($arg1)):x8[6]",
        );
    }

    #[test]
    fn what_is_no_prototype_is_told_with_its_place() {
        let check = |text: &str, expect: &str, column: usize| {
            let error = Prototype::from_text(text).expect_err(text);
            let lines: Vec<&str> = error.lines().collect();
            assert_eq!((lines[0], lines[2].len() - 3), (expect, column), "{text}");
        };
        check("", "expected a function, not the end", 0);
        check("f", "expected `(`, not the end", 1);
        check("f(int", "expected a type and a name", 2);
        check("f(int *)", "expected a type and a name", 2);
        check("f(int a *)", "expected a type and a name", 2);
        check("f(int a", "expected `,`, `|` or `)`, not the end", 7);
        check("f(int a) x", "expected nothing more, not `x`", 9);
        check("f(int a,)", "expected a type, not `)`", 8);
        check("f(intt a)", "unknown type `intt`; the nearest is `int`", 2);
        check("f(struct file a)", "`struct file` is not in a register, expected a pointer to it", 2);
        check("f(int a, int a)", "`a` is there twice", 9);
        check(
            "f(int common_pid)",
            "`common_pid` is a field that every probe event already has, expected a different name",
            2,
        );
        check("f(int a+4)", "an offset alone fetches nothing, expected `[0]` at the end", 2);
        check("f(string[3] a)", "arrays of `string` are not supported", 2);
        check("f(x8[65] a)", "an array of 65 elements, expected 1 to 64", 2);
        check("f(x8[0] a)", "an array of 0 elements, expected 1 to 64", 2);
        check("f(int a[x])", "expected a number, not `x`", 8);
        check("f(u64 a[99999999999999999999])", "expected a number, not `9`", 8);
        check("f(u64 a[9999999999999999999])", "the offset overflows", 2);
        check("f.isra.0(int a)", "expected `(`, not `.`", 1);
    }
}
