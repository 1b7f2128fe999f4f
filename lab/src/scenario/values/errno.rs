//! Error numbers by name, as used in scenarios and messages.

use crate::{
    scenario::read::scalar::{FromText, from_text},
    words::nearest,
};
use std::fmt;

/// An error number of arm64 Linux, written by its name: `EBUSY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(i32);

/// `asm-generic/errno-base.h` and `errno.h`, starting at 1; `-` marks an unused number.
const NAMES: &str = "EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT \
    ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE \
    EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG \
    EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT \
    ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT \
    EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART \
    ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT \
    EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED \
    ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH \
    EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE \
    ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON";

/// An error number internal to the kernel, which tracing code sometimes returns to user space.
const ENOTSUPP: (i32, &str) = (524, "ENOTSUPP");

impl Errno {
    /// The error of a parser that rejects its input.
    pub const EINVAL: Errno = Errno(22);

    /// Creates it from the positive number.
    pub fn from_number(number: i32) -> Errno {
        Errno(number)
    }

    /// Returns the positive number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Returns the name, if the number has one.
    pub fn name(self) -> Option<&'static str> {
        if self.0 == ENOTSUPP.0 {
            return Some(ENOTSUPP.1);
        }
        let index = usize::try_from(self.0).ok()?.checked_sub(1)?;
        NAMES.split_whitespace().nth(index).filter(|name| *name != "-")
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "errno {}", self.0),
        }
    }
}

impl FromText for Errno {
    const EXPECTED: &'static str = "the name of an errno, such as EBUSY";

    fn from_text(text: &str) -> Result<Errno, String> {
        // Two names are aliases of others.
        let name = match text {
            "EWOULDBLOCK" => "EAGAIN",
            "EDEADLOCK" => "EDEADLK",
            name => name,
        };
        if name == ENOTSUPP.1 {
            return Ok(Errno(ENOTSUPP.0));
        }
        let index = NAMES.split_whitespace().position(|known| known == name && known != "-");
        if let Some(number) = index.and_then(|index| i32::try_from(index + 1).ok()) {
            return Ok(Errno(number));
        }
        Err(match nearest(text, NAMES.split_whitespace().filter(|name| *name != "-")) {
            Some(near) => format!("unknown errno `{text}`, expected a name such as `{near}`"),
            None => format!("unknown errno `{text}`, expected a name such as `EBUSY`"),
        })
    }
}

from_text!(Errno, {
    "type": "string",
    "pattern": "^E[A-Z0-9]+$",
    "examples": ["EINVAL", "EBUSY", "ENOENT"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        let check = |name: &str, number: i32| {
            assert_eq!(Errno::from_text(name), Ok(Errno(number)), "{name}");
        };
        for (name, number) in [("EPERM", 1), ("EBUSY", 16), ("EINVAL", 22), ("ELOOP", 40), ("ENOMSG", 42)] {
            check(name, number);
            assert_eq!(Errno(number).to_string(), name);
        }
        for (name, number) in [("EBFONT", 59), ("EILSEQ", 84), ("EADDRNOTAVAIL", 99), ("EHWPOISON", 133)] {
            check(name, number);
            assert_eq!(Errno(number).to_string(), name);
        }
        check("EWOULDBLOCK", 11);
        check("ENOTSUPP", 524);
        assert_eq!(Errno(41).to_string(), "errno 41");
        assert_eq!(Errno(134).to_string(), "errno 134");
        assert_eq!(Errno(-1).to_string(), "errno -1");
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let check = |text, expect: &str| {
            assert_eq!(Errno::from_text(text), Err(expect.to_owned()));
        };
        check("EBUZY", "unknown errno `EBUZY`, expected a name such as `EBUSY`");
        check("-", "unknown errno `-`, expected a name such as `EBUSY`");
        check("16", "unknown errno `16`, expected a name such as `EBUSY`");
    }
}
