//! The kernel log, read with `syslog(2)`.

use crate::refusal::Refusal;
use rustix::io::Errno;

/// SYSLOG_ACTION_READ_ALL: reads the newest bytes without consuming them.
const READ_ALL: libc::c_int = 3;

/// Returns the newest `max` bytes of the kernel log.
pub(crate) fn read(max: usize) -> Result<Vec<u8>, Refusal> {
    let mut log = vec![0_u8; max];
    let room = libc::c_int::try_from(log.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the buffer has room for `room` bytes.
    let length = unsafe { libc::klogctl(READ_ALL, log.as_mut_ptr().cast(), room) };
    match usize::try_from(length) {
        Ok(length) => {
            log.truncate(length);
            Ok(log)
        }
        Err(_) => {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
            Err(Refusal::new("read the kernel log", Errno::from_raw_os_error(errno)))
        }
    }
}
