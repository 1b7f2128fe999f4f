//! Length-prefixed postcard frames of limited size.

use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};

/// The maximum length of a frame body, in bytes, in either direction.
pub const MAX_FRAME: usize = 1 << 20;

/// An error in reading, writing or decoding a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The port failed, or closed in the middle of a frame (`UnexpectedEof`).
    #[error("cannot use the agent port: {0}")]
    Io(#[from] io::Error),
    /// The port closed between two frames.
    #[error("the agent port was closed")]
    Closed,
    /// The length is over [`MAX_FRAME`]: a broken or hostile peer.
    #[error("frame of {0} bytes is over the cap of {MAX_FRAME}")]
    TooLong(usize),
    /// The bytes are not a message of this version.
    #[error("malformed frame: {0}")]
    Malformed(#[from] postcard::Error),
}

/// Returns the frame of `message`: length prefix and body.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let frame = postcard::to_extend(message, vec![0; 4])?;
    let length = frame.len() - 4;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let mut frame = frame;
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Writes one frame and flushes it.
pub fn write_frame(port: &mut impl Write, message: &impl Serialize) -> Result<(), FrameError> {
    port.write_all(&encode(message)?)?;
    port.flush()?;
    Ok(())
}

/// Reads one frame. A close before its first byte is [`FrameError::Closed`].
pub fn read_frame<T: DeserializeOwned>(port: &mut impl Read) -> Result<T, FrameError> {
    let mut prefix = [0; 4];
    match port.read(&mut prefix) {
        Ok(0) => return Err(FrameError::Closed),
        Ok(n) => port.read_exact(&mut prefix[n..])?,
        Err(error) => return Err(error.into()),
    }
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let mut body = vec![0; length];
    port.read_exact(&mut body)?;
    let (message, rest) = postcard::take_from_bytes(&body)?;
    if rest.is_empty() { Ok(message) } else { Err(postcard::Error::DeserializeBadEncoding.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChildState, Output, Reply, Request, Stdin, WriteMode};

    fn check(bytes: &[u8], expect: &str) {
        let mut input = bytes;
        let found = match read_frame::<Request>(&mut input) {
            Ok(message) => format!("{message:?}"),
            Err(error) => format!("error: {error}"),
        };
        assert!(found.contains(expect), "found `{found}`, expected `{expect}`");
    }

    #[test]
    fn what_was_written_is_read() {
        let request = Request::ReadFile { path: "trace_clock".into(), max: 100 };
        check(&encode(&request).unwrap(), &format!("{request:?}"));
    }

    /// Lab and agent of the same version understand each other: the wire format may change only
    /// together with [`crate::VERSION`].
    #[test]
    fn the_wire_format_of_version_7() {
        assert_eq!(crate::VERSION, 7);
        let write = Request::WriteFile { path: "a".into(), data: vec![0x80, 1], mode: WriteMode::Append };
        assert_eq!(encode(&write).unwrap(), b"\x07\0\0\0\x01\x01a\x02\x80\x01\x01");
        assert_eq!(encode(&Reply::Data(vec![7; 3])).unwrap(), b"\x05\0\0\0\x02\x03\x07\x07\x07");
        let child = ChildState::Exited(-1, Output { pid: 2, ..Output::default() });
        assert_eq!(encode(&Reply::Child(child)).unwrap(), b"\x07\0\0\0\x05\x01\x01\x04\0\0\0");
        let feed = Request::Feed { child: 1, data: vec![7] };
        assert_eq!(encode(&feed).unwrap(), b"\x04\0\0\0\x0c\x01\x01\x07");
        let listen = Request::Listen { child: 1, milliseconds: 2 };
        assert_eq!(encode(&listen).unwrap(), b"\x03\0\0\0\x0e\x01\x02");
        let stdin = Stdin::Terminal { rows: 24, columns: 80 };
        let spawn = Request::Spawn { argv: vec![], env: vec![], stdin, output_max: 1 };
        assert_eq!(encode(&spawn).unwrap(), b"\x07\0\0\0\x09\0\0\x02\x18\x50\x01");
        let said = Output { pid: 2, stdout: vec![7], ..Output::default() };
        assert_eq!(encode(&Reply::Said(said)).unwrap(), b"\x06\0\0\0\x06\x04\x01\x07\0\0");
    }

    #[test]
    fn bad_frames_are_named() {
        check(b"", "port was closed");
        check(b"\x05\0", "failed to fill whole buffer");
        check(b"\x05\0\0\0\x01", "failed to fill whole buffer");
        check(b"\xff\xff\xff\xff", "over the cap");
        check(b"\x01\0\0\0\xff", "malformed");
        // A valid message followed by further bytes is not a valid frame.
        check(b"\x02\0\0\0\0\0", "malformed");
    }

    #[test]
    fn a_message_over_the_cap_is_not_sent() {
        let error = encode(&Reply::Data(vec![0; MAX_FRAME])).unwrap_err();
        assert!(matches!(error, FrameError::TooLong(_)), "{error}");
    }
}
