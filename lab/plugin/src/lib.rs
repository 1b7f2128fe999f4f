//! A plugin of QEMU's emulation (TCG) that notes the kernel code that the guest runs.
//!
//! QEMU translates code block by block, each when it is about to run. The plugin notes every block that
//! is translated; once a block is translated it costs nothing. A restored machine starts without any
//! translations, so what it has translated is what it has run. If an exception ends a block early, the
//! rest of it counts as run.
//!
//! `-plugin libplugin.so,out=FILE`. FILE is all zero, and mapped, so it is complete even if QEMU is
//! killed. It is an array of 64-bit words in the byte order of the host: the number of blocks, then one
//! word for each, of which the low 48 bits are those of the address, and the rest is the number of
//! instructions. What does not fit is counted, but not stored.

use memmap2::MmapRaw;
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fs::OpenOptions,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// The version of QEMU's plugin interface, which the lab selects when it builds this.
#[unsafe(export_name = "qemu_plugin_version")]
pub static VERSION: c_int = if option_env!("QEMU_PLUGIN_VERSION_2").is_some() { 2 } else { 1 };

/// The number of low bits of a word that are those of an address.
const ADDRESS_BITS: u32 = 48;

/// The bit that is set in the address of kernel code, also without its upper bits.
const KERNEL: u64 = 1 << (ADDRESS_BITS - 1);

/// A block that is being translated.
#[repr(C)]
struct Block {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: unsafe extern "C" fn(u64, *mut Block));
    fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
}

/// The mapped file.
static NOTES: OnceLock<MmapRaw> = OnceLock::new();

/// Called by QEMU when it loads the plugin. Nonzero makes QEMU exit with an error.
///
/// # Safety
/// `argv` has `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let count = usize::try_from(argc).unwrap_or_default();
    // SAFETY: QEMU passes `argc` strings, each terminated.
    let mut words = (0..count).map(|index| unsafe { CStr::from_ptr(*argv.add(index)) });
    let path = words.find_map(|word| word.to_str().ok()?.strip_prefix("out="));
    let Some(path) = path else {
        eprintln!("the plugin needs an argument out=FILE");
        return 1;
    };
    let mapped =
        OpenOptions::new().read(true).write(true).open(path).and_then(|file| MmapRaw::map_raw(&file));
    match mapped {
        Ok(map) if map.len() >= size_of::<u64>() => {
            // Installed once: there is no other map.
            let _ = NOTES.set(map);
            // SAFETY: the callback has the type that QEMU expects.
            unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
            0
        }
        Ok(_) => {
            eprintln!("`{path}` is too short");
            1
        }
        Err(error) => {
            eprintln!("cannot map `{path}`: {error}");
            1
        }
    }
}

/// Notes a block. Several CPUs translate at the same time.
unsafe extern "C" fn translated(_id: u64, block: *mut Block) {
    // SAFETY: QEMU passes a block, which is valid during the call.
    let (start, length) = unsafe { (qemu_plugin_tb_vaddr(block), qemu_plugin_tb_n_insns(block)) };
    let Some(map) = NOTES.get() else { return };
    if start & KERNEL == 0 {
        return;
    }
    let word = |index: usize| {
        // SAFETY: the index is below the number of words of the map, which is aligned to a page and lives
        // as long as the process.
        unsafe { AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(index)) }
    };
    let place = usize::try_from(word(0).fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
    if place < map.len() / size_of::<u64>() - 1 {
        let address = start & ((1 << ADDRESS_BITS) - 1);
        word(1 + place).store(address | (length as u64) << ADDRESS_BITS, Ordering::Relaxed);
    }
}
