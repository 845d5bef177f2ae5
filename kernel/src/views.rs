//! Views of groups whose members mostly stand as they stood in the view before, byte for byte: which ones do.
//!
//! Bytes are compared, nothing is decoded: what is left is for Python to read, and what is not as the library writes
//! it is declined.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// How far from its place a member is looked for: others may have come or gone before it.
const REACH: usize = 16;
const MEMBERS: &[u8] = b"\"members\"";

/// The place of a member that the view before does not have.
const NEW: isize = -1;

/// Where each member begins and ends, one after the other.
type Spans = Vec<usize>;
/// What is left of the view, the places of its members, and their spans.
type Repeated<'py> = (Bound<'py, PyBytes>, Bound<'py, PyList>, Bound<'py, PyList>);

/// The view without the members that it repeats, for each of its members the place in the view before or -1, and where
/// its members stand; None where it is not as the library writes it.
#[pyfunction]
pub fn repeated_members<'py>(
    py: Python<'py>,
    before: &[u8],
    spans: Spans,
    now: &[u8],
) -> PyResult<Option<Repeated<'py>>> {
    let Some(found) = Found::of(before, &spans, now) else { return Ok(None) };
    Ok(Some((PyBytes::new(py, &found.left), PyList::new(py, found.places)?, PyList::new(py, found.spans)?)))
}

struct Found {
    left: Vec<u8>,
    places: Vec<isize>,
    spans: Spans,
}

impl Found {
    fn of(before: &[u8], spans: &[usize], now: &[u8]) -> Option<Found> {
        let known: Vec<&[u8]> =
            spans.chunks_exact(2).map(|span| before.get(span[0]..span[1])).collect::<Option<_>>()?;
        let start = beginning(now)?;
        let mut at = start;
        let mut found = Found { left: now[..start].to_vec(), places: vec![], spans: vec![] };
        let mut next = 0;
        while now.get(at)? != &b']' {
            if !found.places.is_empty() {
                if now[at] != b',' {
                    return None;
                }
                at += 1;
            }
            let end = match repeated(&known, next, &now[at..]) {
                Some(place) => {
                    found.places.push(place as isize);
                    next = place + 1;
                    at + known[place].len()
                }
                None => {
                    let end = at + object(&now[at..])?;
                    if found.left.len() > start {
                        found.left.push(b',');
                    }
                    found.left.extend_from_slice(&now[at..end]);
                    found.places.push(NEW);
                    next += 1;
                    end
                }
            };
            found.spans.extend([at, end]);
            at = end;
        }
        let rest = &now[at..];
        // A second list of members would be the one that counts; escapes could hide it.
        if rest.contains(&b'\\') || rest.windows(MEMBERS.len()).any(|part| part == MEMBERS) {
            return None;
        }
        found.left.extend_from_slice(rest);
        Some(found)
    }
}

/// The place near `next` of the member that stands here.
fn repeated(known: &[&[u8]], next: usize, here: &[u8]) -> Option<usize> {
    let ends = |len: usize| matches!(here.get(len), Some(b',' | b']'));
    let is =
        |place: usize| known.get(place).is_some_and(|member| here.starts_with(member) && ends(member.len()));
    if is(next) {
        return Some(next);
    }
    let reach = next.saturating_sub(REACH)..known.len().min(next + REACH);
    reach.into_iter().find(|&place| is(place))
}

/// Where the list of members of `{"groupId":"…","timestamp":0,"members":[` begins.
fn beginning(value: &[u8]) -> Option<usize> {
    let rest = value.strip_prefix(b"{\"groupId\":\"")?;
    let rest = &rest[rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?..];
    let rest = rest.strip_prefix(b"\",\"timestamp\":")?;
    let rest = &rest[rest.iter().position(|byte| !byte.is_ascii_digit())?..];
    Some(value.len() - rest.strip_prefix(b",\"members\":[")?.len())
}

/// How long the object is that stands here, were it JSON.
fn object(here: &[u8]) -> Option<usize> {
    if here.first() != Some(&b'{') {
        return None;
    }
    let (mut depth, mut at) = (0usize, 0);
    loop {
        match here.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => at += 1 + text(&here[at + 1..])?,
            _ => {}
        }
        at += 1;
    }
}

/// Where the text ends whose first quote was before `here`.
fn text(here: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += here.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        if here[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}
