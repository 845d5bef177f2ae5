//! Python's objects by the shortest way that its stable interface has: a large group is hundreds of thousands.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use pyo3::Borrowed;

/// An attribute of many objects of one type. Where the type has a slot for it, that is asked directly: what `getattr`
/// comes to after a search by name for each object.
pub struct Attribute<'py> {
    name: &'py Bound<'py, PyString>,
    of: Bound<'py, PyType>,
    slot: Option<(Bound<'py, PyAny>, ffi::descrgetfunc)>,
}

impl<'py> Attribute<'py> {
    pub fn of(like: &Bound<'py, PyType>, name: &'py Bound<'py, PyString>) -> Self {
        let found = like.getattr(name).ok();
        // SAFETY: the address of a static; what a type has in this slot is such a function, or nothing.
        let slot = found.filter(|found| found.get_type_ptr() == &raw mut ffi::PyMemberDescr_Type).and_then(
            |found| unsafe {
                let get = ffi::PyType_GetSlot(found.get_type_ptr(), ffi::Py_tp_descr_get);
                let get: Option<ffi::descrgetfunc> = std::mem::transmute(get);
                Some((found, get?))
            },
        );
        Attribute { name, of: like.clone(), slot }
    }

    pub fn get(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let of = object.get_type_ptr();
        match &self.slot {
            // SAFETY: the descriptor is of this type, all are alive, and the answer is a new reference or an error.
            Some((slot, get)) if of == self.of.as_type_ptr() => unsafe {
                let found = get(slot.as_ptr(), object.as_ptr(), of.cast());
                Bound::from_owned_ptr_or_err(object.py(), found)
            },
            _ => object.getattr(self.name),
        }
    }
}

/// `dict[key] = value`.
pub fn put(dict: &Bound<'_, PyDict>, key: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: three living objects, the first of which is a dict.
    match unsafe { ffi::PyDict_SetItem(dict.as_ptr(), key.as_ptr(), value.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(dict.py())),
    }
}

/// A dict's entries, borrowed from it.
pub struct Entries<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
    at: ffi::Py_ssize_t,
}

impl<'a, 'py> Entries<'a, 'py> {
    /// # Safety
    /// An entry must not be used after code of Python's ran, which may have changed the dict.
    pub unsafe fn of(dict: &'a Bound<'py, PyDict>) -> Self {
        Entries { dict, at: 0 }
    }
}

impl<'a, 'py> Iterator for Entries<'a, 'py> {
    type Item = (Borrowed<'a, 'py, PyAny>, Borrowed<'a, 'py, PyAny>);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a living dict; Python checks where it is, and whoever made this keeps to what is said there.
        unsafe {
            if ffi::PyDict_Next(self.dict.as_ptr(), &mut self.at, &mut key, &mut value) == 0 {
                return None;
            }
            let py = self.dict.py();
            Some((Borrowed::from_ptr(py, key), Borrowed::from_ptr(py, value)))
        }
    }
}

/// Strings that were read as UTF-8 already.
pub fn text<'a>(string: &'a Bound<'_, PyString>) -> &'a str {
    string.to_str().unwrap_or("")
}
