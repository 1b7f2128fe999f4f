//! Valid paths, and the errors of invalid ones.

use super::*;

/// Returns a value with every operator spelled out.
fn said(value: &Value) -> String {
    match &value.is {
        ValueKind::Parameter(name) => name.clone(),
        ValueKind::Argument(number) => format!("arg{number}"),
        ValueKind::Returned => "retval".to_owned(),
        ValueKind::Pointee(of) => format!("deref({})", said(of)),
        ValueKind::Address(of) => format!("address({})", said(of)),
        ValueKind::Cast(to, of) => {
            let user = if to.user { " user" } else { "" };
            format!("cast({:?} {}{}{user}, {})", to.kind, to.name, "*".repeat(to.pointers as usize), said(of))
        }
        ValueKind::Member { of, name, arrow } => {
            format!("{}({}, {name})", if *arrow { "arrow" } else { "dot" }, said(of))
        }
        ValueKind::Element { of, number } => format!("element({}, {number})", said(of)),
    }
}

#[test]
fn paths_are_read_as_c_reads_them() {
    let check = |text: &str, value: &str, format: Option<&str>| {
        let path = Path::parse(text).unwrap_or_else(|error| panic!("{}", error.shown(text)));
        assert_eq!((said(&path.value).as_str(), path.format.as_deref()), (value, format), "{text}");
    };
    check("file", "file", None);
    check("file->f_inode->i_sb:x64", "arrow(arrow(file, f_inode), i_sb)", Some("x64"));
    check("dev->perm_addr:x8[6]", "arrow(dev, perm_addr)", Some("x8[6]"));
    check("*(u64 *)buf", "deref(cast(Plain u64*, buf))", None);
    check("*(u64 __user *)buf", "deref(cast(Plain u64* user, buf))", None);
    check("(const char __user *) buf : ustring", "cast(Plain char* user, buf)", Some("ustring"));
    check("((struct sk_buff *)$arg1)->len", "arrow(cast(Struct sk_buff*, arg1), len)", None);
    check("$retval->f_mode", "arrow(retval, f_mode)", None);
    check("a.b[3].c", "dot(element(dot(a, b), 3), c)", None);
    check("&a->b", "address(arrow(a, b))", None);
    check("*a->b", "deref(arrow(a, b))", None);
    check("(a)->b", "arrow(a, b)", None);
    check("(unsigned long long)a", "cast(Plain long long unsigned int, a)", None);
    check("(long unsigned)a", "cast(Plain long unsigned int, a)", None);
    check("(signed)a", "cast(Plain int, a)", None);
    check("(enum pid_type)a", "cast(Enum pid_type, a)", None);
}

#[test]
fn what_is_no_path_is_told_with_its_place() {
    let check = |text: &str, expect: &str, at: usize| {
        let error = Path::parse(text).expect_err(text);
        assert_eq!((error.message.as_str(), error.at.start), (expect, at), "{text}");
    };
    check("", "expected a parameter, not the end", 0);
    check("a->", "expected a member's name, not the end", 3);
    check("a->b c", "expected `->`, `.`, `[` or `:FORMAT`, not `c`", 5);
    check("a[b]", "expected a number, not `b`", 2);
    check("a[1", "expected `]`, not the end", 3);
    check("(a", "expected `)`, not the end", 2);
    check("a:", "expected `->`, `.`, `[` or `:FORMAT`, not `:`", 1);
    check("a:u64 x=%x0", "bad format `u64 x=%x0`, expected one such as u64, x8[6] or string", 2);
    check("a: ", "bad format ``, expected one such as u64, x8[6] or string", 2);
    check("$comm->x", "`$comm` has no type, expected $argN or $retval", 0);
    check("$arg0->x", "`$arg0` has no type, expected $argN or $retval", 0);
    check("(long short)a", "`long short` is not a type", 1);
    check(&"*".repeat(100), "more than 32 operators", 32);
    check(&format!("a{}", "->b".repeat(100)), "more than 32 operators", 97);
}

#[test]
fn a_caret_stands_below_the_fault() {
    let error = Path::parse("a->b c").unwrap_err();
    assert_eq!(error.shown("a->b c").lines().nth(2).unwrap(), "       ^");
}
