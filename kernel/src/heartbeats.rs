//! Heartbeats read from the bytes that the library writes, and from no others.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// `streaming.wire.events`: what their fields take at most.
const MAX_TIMESTAMP: u64 = 253_370_764_799_999;
const MAX_INT32: u64 = 2_147_483_647;
const MAX_ID: usize = 32_767;

/// The timestamp of each member's last one, in the order in which they were first heard; None where Python reads.
pub fn read<'py>(
    key: &Bound<'py, PyBytes>,
    values: &Bound<'py, PyList>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let heard = PyDict::new(key.py());
    let Some((group, b"")) = plain(key.as_bytes()) else { return Ok(None) };
    for value in values {
        let value = value.downcast_into::<PyBytes>()?;
        let Some((member, timestamp)) = heartbeat(group, value.as_bytes()) else { return Ok(None) };
        heard.set_item(member, timestamp)?;
    }
    Ok(Some(heard))
}

/// `{"groupId":"…","timestamp":0,"memberId":"…","generation":0}`, the last of which may be missing.
fn heartbeat<'a>(group: &str, value: &'a [u8]) -> Option<(&'a str, u64)> {
    let rest = value.strip_prefix(b"{\"groupId\":\"")?.strip_prefix(group.as_bytes())?;
    let (timestamp, rest) = number(rest.strip_prefix(b"\",\"timestamp\":")?)?;
    let (member, rest) = plain(rest.strip_prefix(b",\"memberId\":\"")?)?;
    let rest = rest.strip_prefix(b"\"")?;
    let rest = match rest.strip_prefix(b",\"generation\":") {
        Some(rest) => number(rest).filter(|(generation, _)| *generation <= MAX_INT32)?.1,
        None => rest,
    };
    (rest == b"}" && timestamp <= MAX_TIMESTAMP && member.len() <= MAX_ID).then_some((member, timestamp))
}

/// Text up to a quote, a backslash or what is not printable ASCII, and what follows.
fn plain(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'));
    let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// A number without a sign or needless zeros, and what follows.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at(end);
    if digits.len() > 1 && digits[0] == b'0' {
        return None;
    }
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}
