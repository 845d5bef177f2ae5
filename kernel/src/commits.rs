//! Offset commits of a client's messages, read in the layout that today's brokers write.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

/// OffsetCommitValue 3: its version, and its length without metadata.
const VERSION: &[u8] = &[0, 3];
const PLAIN: usize = 24;
const NULL: u16 = u16::MAX;

/// A commit; `committed`: when (ms), and the offset; None for a tombstone.
struct Commit<'a> {
    group: &'a [u8],
    topic: &'a str,
    partition: i32,
    committed: Option<(i64, i64)>,
}

/// `streaming.collect.passing.pass_over_slowly`.
pub fn pass_over<'py>(
    messages: &Bound<'py, PyList>,
    at: usize,
    partition: i64,
    mut reached: i64,
    followed: &Bound<'py, PyDict>,
) -> PyResult<(usize, i64, Bound<'py, PyList>)> {
    let py = messages.py();
    let commits = PyList::empty(py);
    let follows = !followed.is_empty();
    let mut topic = PyString::new(py, "");
    for place in at..messages.len() {
        let message = messages.get_item(place)?;
        if !message.call_method0(intern!(py, "error"))?.is_none() {
            return Ok((place, reached, commits));
        }
        let number: i64 = message.call_method0(intern!(py, "partition"))?.extract()?;
        let offset: i64 = message.call_method0(intern!(py, "offset"))?.extract()?;
        if number != partition || offset < reached {
            return Ok((place, reached, commits));
        }
        let key = message.call_method0(intern!(py, "key"))?;
        let value = message.call_method0(intern!(py, "value"))?;
        let Some(commit) = Commit::read(&key, &value) else { return Ok((place, reached, commits)) };
        if follows {
            let group = PyBytes::new(py, commit.group);
            if followed.contains(&group)? {
                if topic != commit.topic {
                    topic = PyString::new(py, commit.topic);
                }
                let (when, to) = commit.committed.unzip();
                commits.append((place, group, &topic, commit.partition, when, to))?;
            }
        }
        reached = offset + 1;
    }
    Ok((messages.len(), reached, commits))
}

impl<'a> Commit<'a> {
    /// What `streaming.collect.coordinator.records.committing` takes.
    fn read(key: &'a Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<Self> {
        let key = key.downcast::<PyBytes>().ok()?.as_bytes();
        let committed = match value.is_none() {
            true => None,
            false => Some(committed(value.downcast::<PyBytes>().ok()?.as_bytes())?),
        };
        let names = key.strip_prefix(&[0, 0]).or_else(|| key.strip_prefix(&[0, 1]))?;
        let (names, partition) = names.split_last_chunk()?;
        let (group, rest) = string(names)?;
        let (topic, rest) = string(rest)?;
        if !rest.is_empty() || !names.is_ascii() {
            return None;
        }
        let topic = std::str::from_utf8(topic).ok()?;
        Some(Self { group, topic, partition: i32::from_be_bytes(*partition), committed })
    }
}

/// When, and the offset, of a value that has no metadata, or metadata in ASCII.
fn committed(value: &[u8]) -> Option<(i64, i64)> {
    if value.len() < PLAIN || !value.starts_with(VERSION) {
        return None;
    }
    let (rest, when) = value.split_last_chunk()?;
    let metadata = &rest[16..];
    let length = u16::from_be_bytes([rest[14], rest[15]]);
    let whole = metadata.len() == usize::from(if length == NULL { 0 } else { length });
    let offset = rest[2..10].first_chunk()?;
    (whole && metadata.is_ascii()).then_some((i64::from_be_bytes(*when), i64::from_be_bytes(*offset)))
}

/// What stands behind its length in two bytes, and the rest.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}
