//! Encodes the arm64 instructions that the kernel patches in, and disassembles any instruction.

use trace::Symbols;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Operand};

/// The `nop` instruction.
pub const NOP: u32 = 0xd503_201f;

/// Landing pads at the start of functions: `bti c`, `bti j`, `bti jc`.
pub const BTI: [u32; 3] = [0xd503_245f, 0xd503_249f, 0xd503_24df];

/// Instructions that can be referred to by name: those that arm64 kernels patch in or replace.
pub const NAMED: [(&str, u32); 8] = [
    ("nop", NOP),
    ("mov x9, x30", 0xaa1e_03e9),
    ("ret", 0xd65f_03c0),
    ("bti c", BTI[0]),
    ("bti j", BTI[1]),
    ("paciasp", 0xd503_233f),
    ("pacibsp", 0xd503_237f),
    ("autiasp", 0xd503_23bf),
];

/// The bits common to all branches of a kind, above the 26 bits of the offset.
const B: u32 = 0x1400_0000;
const BL: u32 = 0x9400_0000;
const OFFSET: u32 = 0x03ff_ffff;

/// Encodes `b` from `at` to `target`, both aligned instructions within 128 MiB of one another.
pub fn branch(at: u64, target: u64) -> u32 {
    B | offset(at, target)
}

/// Encodes `bl` from `at` to `target`, like [`branch`].
pub fn branch_link(at: u64, target: u64) -> u32 {
    BL | offset(at, target)
}

fn offset(at: u64, target: u64) -> u32 {
    (target.wrapping_sub(at) >> 2) as u32 & OFFSET
}

/// Returns whether it is a `b`.
pub fn is_branch(word: u32) -> bool {
    word & !OFFSET == B
}

/// Returns whether it is a `bl`.
pub fn is_branch_link(word: u32) -> bool {
    word & !OFFSET == BL
}

/// Returns the target of a `b` or `bl` at `at`.
pub fn target(at: u64, word: u32) -> Option<u64> {
    // The sign of the offset is the topmost of its 26 bits.
    let offset = i64::from((word & OFFSET) << 6) << 32 >> 36;
    (is_branch(word) || is_branch_link(word)).then(|| at.wrapping_add_signed(offset))
}

/// Returns the target of a conditional branch at `at`: `b.cond`, `cbz`, `cbnz`, `tbz` or `tbnz`.
pub fn conditional_target(at: u64, word: u32) -> Option<u64> {
    let is_cond = word & 0xff00_0010 == 0x5400_0000;
    let is_compare = word & 0x7e00_0000 == 0x3400_0000;
    let is_test = word & 0x7e00_0000 == 0x3600_0000;
    // The offset ends below bit 24, or bit 19 of a test, with its sign as the topmost bit.
    let (above, bits) = if is_test { (13, 14) } else { (8, 19) };
    let words = (word << above).cast_signed() >> (32 - bits);
    (is_cond || is_compare || is_test).then(|| at.wrapping_add_signed(i64::from(words) * 4))
}

/// Encodes `brk` with an immediate.
pub fn brk(number: u16) -> u32 {
    0xd420_0000 | u32::from(number) << 5
}

/// Formats an instruction as `d503201f  nop`, a branch with the symbol of its target.
pub fn shown(address: u64, word: u32, symbols: &Symbols) -> String {
    format!("{word:08x}  {}", disassembled(address, word, symbols))
}

fn disassembled(address: u64, word: u32, symbols: &Symbols) -> String {
    if word & !(0xffff << 5) == brk(0) {
        return format!("brk {:#x}", word >> 5 & 0xffff);
    }
    if let Some((name, _)) = NAMED.iter().find(|(_, named)| *named == word) {
        return (*name).to_owned();
    }
    let bytes = word.to_le_bytes();
    let Ok(instruction) = InstDecoder::default().decode(&mut U8Reader::new(&bytes)) else {
        return "no instruction".to_owned();
    };
    let text = instruction.to_string();
    let offset = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(*offset),
        _ => None,
    });
    // `$+0x40` is always the last operand.
    let (Some(offset), Some((before, _))) = (offset, text.split_once('$')) else { return text };
    // The offset of adrp is relative to its page.
    let from = if before.starts_with("adrp") { address & !0xfff } else { address };
    let target = from.wrapping_add_signed(offset);
    match symbols.resolve(target) {
        Some(symbol) => format!("{before}{symbol}"),
        None => format!("{before}{target:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_what_an_assembler_makes_of_them() {
        assert_eq!(branch(0xffff_8000_0000_0000, 0xffff_8000_0000_00d0), 0x1400_0034);
        assert_eq!(branch(0x1000, 0xffc), 0x17ff_ffff);
        assert_eq!(branch_link(0x1000, 0x1004), 0x9400_0001);
        assert_eq!(brk(4), 0xd420_0080);
        for goes_to in [0x1004, 0xffc, 0x800_0ffc] {
            assert_eq!(target(0x1000, branch(0x1000, goes_to)), Some(goes_to));
            assert_eq!(target(0x1000, branch_link(0x1000, goes_to)), Some(goes_to));
        }
        assert_eq!(target(0x1000, NOP), None);
        assert!(is_branch(0x17ff_ffff) && !is_branch(0x9400_0001) && is_branch_link(0x9400_0001));
    }

    #[test]
    fn instructions_are_shown_with_the_symbols_they_go_to() {
        let symbols = Symbols::parse("0000000000001000 T first\n0000000000002000 T second [mine]\n".into());
        let check = |word, expect: &str| assert_eq!(shown(0x1040, word, &symbols), expect);
        check(NOP, "d503201f  nop");
        check(0xaa1e_03e9, "aa1e03e9  mov x9, x30");
        check(0xd420_0080, "d4200080  brk 0x4");
        check(branch(0x1040, 0x2010), "140003f4  b second+0x10 [mine]");
        check(branch_link(0x1040, 0x1000), "97fffff0  bl first+0x0");
        // cbz x0, .+0x20
        check(0xb400_0100, "b4000100  cbz x0, first+0x60");
        check(0xa9bf_7bfd, "a9bf7bfd  stp x29, x30, [sp, #-0x10]!");
        check(0x0000_0000, "00000000  udf #0x0");
    }

    #[test]
    fn conditional_branches_have_targets() {
        let check =
            |word, expect: Option<u64>| assert_eq!(conditional_target(0x1000, word), expect, "{word:08x}");
        // b.ne .+0x20, b.eq .-4, cbz x0, .+0x20, cbnz w3, .-0x40, tbz w1, #3, .+0x100, tbnz x2, #63, .-8
        check(0x5400_0101, Some(0x1020));
        check(0x54ff_ffe0, Some(0xffc));
        check(0xb400_0100, Some(0x1020));
        check(0x35ff_fe03, Some(0xfc0));
        check(0x3618_0801, Some(0x1100));
        check(0xb7ff_ffc2, Some(0xff8));
        check(branch(0x1000, 0x1020), None);
        check(NOP, None);
        // bc.eq, of FEAT_HBC.
        check(0x5400_0110, None);
    }
}
