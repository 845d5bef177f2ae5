//! Python's ranges, each made and read once: nothing changes them, and members of like topics share them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyRange};
use rustc_hash::FxHashMap;

use super::Run;

pub struct Runs<'py> {
    py: Python<'py>,
    made: FxHashMap<Run, Bound<'py, PyAny>>,
    /// By address: they are owned, and so live as long as the call.
    read: FxHashMap<usize, Run>,
}

impl<'py> Runs<'py> {
    pub fn new(py: Python<'py>) -> Self {
        Runs { py, made: FxHashMap::default(), read: FxHashMap::default() }
    }

    /// The range of these partitions.
    pub fn object(&mut self, run: Run) -> PyResult<Bound<'py, PyAny>> {
        if let Some(made) = self.made.get(&run) {
            return Ok(made.clone());
        }
        let (first, step) = (run.first as isize, run.step as isize);
        let after = first + run.count as isize * step - (step - 1);
        let made = PyRange::new_with_step(self.py, first, after, step)?.into_any();
        self.made.insert(run, made.clone());
        Ok(made)
    }

    /// A range or a list of these partitions, ascending.
    pub fn some(&mut self, mut partitions: Vec<u32>) -> PyResult<Bound<'py, PyAny>> {
        partitions.sort_unstable();
        let (first, count) = (partitions[0], partitions.len() as u32);
        if partitions[partitions.len() - 1] - first == count - 1 {
            return self.object(Run { first, step: 1, count });
        }
        Ok(PyList::new(self.py, partitions)?.into_any())
    }

    /// The numbers of an ascending range; None: it is none.
    pub fn read(&mut self, partitions: &Bound<'py, PyAny>) -> PyResult<Option<Run>> {
        let address = partitions.as_ptr() as usize;
        if let Some(&known) = self.read.get(&address) {
            return Ok(Some(known));
        }
        if !partitions.is_exact_instance_of::<PyRange>() {
            return Ok(None);
        }
        let (first, step) =
            (partitions.getattr(intern!(self.py, "start"))?, partitions.getattr(intern!(self.py, "step"))?);
        let (Ok(first), Ok(step), Ok(count)) =
            (first.extract(), step.extract(), u32::try_from(partitions.len()?))
        else {
            return Ok(None);
        };
        let run = Run { first, step: if count > 1 { step } else { 1 }, count };
        self.read.insert(address, run);
        Ok(Some(run))
    }
}
