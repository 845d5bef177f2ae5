//! Offset commits that nothing follows from, passed over in a batch of the client's messages.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// OffsetCommitValue 3: its version, and its length without metadata.
const VERSION: &[u8] = &[0, 3];
const PLAIN: usize = 24;
const NULL: u16 = u16::MAX;

/// `streaming.collect.passing.pass_over_slowly`: the place of the first message from `at` on that is not a commit of this partition, of a group that is not
/// followed, at or behind the offset that was reached; and where the partition is read to then.
pub fn pass_over(
    messages: &Bound<'_, PyList>,
    at: usize,
    partition: i64,
    mut reached: i64,
    followed: &Bound<'_, PyDict>,
) -> PyResult<(usize, i64)> {
    let py = messages.py();
    let follows = !followed.is_empty();
    for place in at..messages.len() {
        let message = messages.get_item(place)?;
        if !message.call_method0(intern!(py, "error"))?.is_none() {
            return Ok((place, reached));
        }
        let number: i64 = message.call_method0(intern!(py, "partition"))?.extract()?;
        let offset: i64 = message.call_method0(intern!(py, "offset"))?.extract()?;
        if number != partition || offset < reached {
            return Ok((place, reached));
        }
        let key = message.call_method0(intern!(py, "key"))?;
        let value = message.call_method0(intern!(py, "value"))?;
        let Some(group) = committing(&key, &value) else { return Ok((place, reached)) };
        if follows && followed.contains(PyBytes::new(py, group))? {
            return Ok((place, reached));
        }
        reached = offset + 1;
    }
    Ok((messages.len(), reached))
}

/// `streaming.collect.coordinator.records.committing`: the group of a commit in the layout of today's brokers.
fn committing<'a>(key: &'a Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<&'a [u8]> {
    let key = key.downcast::<PyBytes>().ok()?.as_bytes();
    if !value.is_none() && !plain(value.downcast::<PyBytes>().ok()?.as_bytes()) {
        return None;
    }
    let names = key.strip_prefix(&[0, 0]).or_else(|| key.strip_prefix(&[0, 1]))?;
    let (names, _partition) = names.split_at_checked(names.len().checked_sub(4)?)?;
    let (group, rest) = string(names)?;
    let (_topic, rest) = string(rest)?;
    (rest.is_empty() && names.is_ascii()).then_some(group)
}

/// Whether it has no metadata, or metadata in ASCII.
fn plain(value: &[u8]) -> bool {
    if value.len() < PLAIN || !value.starts_with(VERSION) {
        return false;
    }
    let metadata = &value[16..value.len() - 8];
    let length = u16::from_be_bytes([value[14], value[15]]);
    metadata.len() == usize::from(if length == NULL { 0 } else { length }) && metadata.is_ascii()
}

/// What stands behind its length in two bytes, and the rest.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
