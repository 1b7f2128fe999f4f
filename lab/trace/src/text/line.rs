//! Text with gaps for what only the kernel knows.

use crate::print::{HASHED, SIZE};

/// The text of one event: one line or several.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) parts: Vec<Part>,
}

/// A part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The hash of an address.
    Hashed(u64),
    /// The size of a symbol, `0x` and digits.
    Size,
    /// The number of a CPU that is online, one of so many.
    Cpu(u32),
    /// The time since the buffer was last reset.
    Since(u64, Since),
}

/// The form of a time since the buffer was last reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// `%4lld`, in microseconds.
    Micros,
    /// `%ld.%03ld`, in milliseconds.
    Millis,
    /// `%4lld` of a clock that does not count nanoseconds.
    Units,
    /// `%lld` of a clock that does not count nanoseconds.
    UnitsBare,
}

impl Line {
    /// Appends bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.parts.push(Part::Bytes(bytes.to_vec())),
        }
    }

    /// Appends text as it is.
    pub(super) fn push(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Appends text that a printer made, with its marks.
    pub(super) fn printed(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find([HASHED, SIZE]) {
            self.push(&rest[..at]);
            let mark = rest[at..].chars().next().unwrap_or_default();
            let behind = &rest[at + mark.len_utf8()..];
            rest = behind;
            if mark == SIZE {
                self.parts.push(Part::Size);
            } else if let Some(address) = behind.get(..16).and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                self.parts.push(Part::Hashed(address));
                rest = &behind[16..];
            }
        }
        self.push(rest);
    }

    /// Appends the number of any of so many CPUs.
    pub(super) fn cpu(&mut self, online: u32) {
        self.parts.push(Part::Cpu(online));
    }

    /// Appends a time since the buffer was last reset.
    pub(super) fn since(&mut self, time: u64, form: Since) {
        self.parts.push(Part::Since(time, form));
    }

    /// Removes the last byte, if it is a newline.
    pub(super) fn strip_newline(&mut self) {
        if let Some(Part::Bytes(bytes)) = self.parts.last_mut()
            && bytes.last() == Some(&b'\n')
        {
            bytes.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_parts() {
        let mut line = Line::default();
        line.push("a ");
        line.printed(&format!("f+0x4/{SIZE} p={HASHED}ffff000012345678!"));
        let text = |text: &str| Part::Bytes(text.as_bytes().to_vec());
        let hashed = Part::Hashed(0xffff_0000_1234_5678);
        assert_eq!(line.parts, [text("a f+0x4/"), Part::Size, text(" p="), hashed, text("!")]);
    }
}
