//! Python's ranges, each made and read once: nothing changes them, and members of like topics share them, as do groups.

use std::sync::Mutex;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Run;
use crate::python::Attribute;

/// What calls before this one made, as Python keeps its small numbers: a group is assigned again and again, and its
/// shares are kept. None while a call has it.
static MADE: Mutex<Option<Made>> = Mutex::new(None);

#[derive(Default)]
struct Made {
    ranges: FxHashMap<Run, Py<PyAny>>,
    /// By address: these live as long as they are kept.
    runs: FxHashMap<usize, Run>,
}

/// Of so many ranges, about 3 MB, none is kept.
const TOO_MANY: usize = 1 << 14;

pub struct Runs<'py> {
    range: Bound<'py, PyType>,
    start: Attribute<'py>,
    step: Attribute<'py>,
    made: Made,
    /// By address: they are owned, and so live as long as the call.
    read: FxHashMap<usize, Run>,
    last: Option<(usize, Run)>,
}

impl<'py> Runs<'py> {
    pub fn new(py: Python<'py>) -> Self {
        // SAFETY: PyRange_Type is a static of the interpreter, which is running.
        let range = unsafe { PyType::from_borrowed_type_ptr(py, &raw mut ffi::PyRange_Type) };
        let (start, step) =
            (Attribute::of(&range, intern!(py, "start")), Attribute::of(&range, intern!(py, "step")));
        let made = MADE.lock().ok().and_then(|mut made| made.take()).unwrap_or_default();
        let read = FxHashMap::with_capacity_and_hasher(128, FxBuildHasher);
        Runs { range, start, step, made, read, last: None }
    }

    /// The range of these partitions.
    pub fn object(&mut self, run: Run) -> PyResult<Bound<'py, PyAny>> {
        if let Some(made) = self.made.ranges.get(&run) {
            return Ok(made.bind(self.range.py()).clone());
        }
        let (first, step) = (u64::from(run.first), u64::from(run.step));
        let after = first + u64::from(run.count) * step - (step - 1);
        let made = if run.step == 1 {
            self.range.call1((first, after))?
        } else {
            self.range.call1((first, after, step))?
        };
        self.made.runs.insert(made.as_ptr() as usize, run);
        self.made.ranges.insert(run, made.clone().unbind());
        Ok(made)
    }

    /// A range or a list of these partitions, ascending.
    pub fn some(&mut self, mut partitions: Vec<u32>) -> PyResult<Bound<'py, PyAny>> {
        partitions.sort_unstable();
        let (first, count) = (partitions[0], partitions.len() as u32);
        if partitions[partitions.len() - 1] - first == count - 1 {
            return self.object(Run { first, step: 1, count });
        }
        Ok(PyList::new(self.range.py(), partitions)?.into_any())
    }

    /// The numbers of an ascending range; None: it is none.
    pub fn read(&mut self, partitions: &Bound<'py, PyAny>) -> PyResult<Option<Run>> {
        let address = partitions.as_ptr() as usize;
        match self.last {
            Some((last, run)) if last == address => return Ok(Some(run)),
            _ => {}
        }
        let run = match self.made.runs.get(&address).or_else(|| self.read.get(&address)) {
            Some(&known) => known,
            None => {
                if !partitions.get_type().is(&self.range) {
                    return Ok(None);
                }
                let (first, step) = (self.start.get(partitions)?, self.step.get(partitions)?);
                let (Ok(first), Ok(step), Ok(count)) =
                    (first.extract(), step.extract(), u32::try_from(partitions.len()?))
                else {
                    return Ok(None);
                };
                let step = if count > 1 { step } else { 1 };
                self.read.insert(address, Run { first, step, count });
                Run { first, step, count }
            }
        };
        self.last = Some((address, run));
        Ok(Some(run))
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        let made = std::mem::take(&mut self.made);
        if let (true, Ok(mut kept)) = (made.ranges.len() < TOO_MANY, MADE.lock()) {
            *kept = Some(made);
        }
    }
}
