//! Classes of Python as congestion controls of a run: each connection gets an object of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use warpline_lab::run::{CcFactory, CustomCc};
use warpline_transport::cc::{self, CongestionControl};

use crate::cc::{CcConfig, Failure, Object, PyCongestionControl, Window};
use crate::interval::Gathered;

/// The Python classes as congestion controls.
pub(crate) fn custom(classes: BTreeMap<String, Py<PyAny>>, failure: &Failure) -> CustomCc {
    let factory = |class: Py<PyAny>| -> CcFactory {
        let failure = failure.clone();
        Arc::new(move |config| create(&class, config, &failure))
    };
    CustomCc(classes.into_iter().map(|(name, class)| (name, factory(class))).collect())
}

/// Makes the algorithm of a new connection with `factory(config)`. An error goes to `failure`; the connection then keeps a
/// fixed window until the run stops.
fn create(factory: &Py<PyAny>, config: &cc::CcConfig, failure: &Failure) -> Box<dyn CongestionControl> {
    if failure.is_set() {
        return Box::new(PyCongestionControl::idle(config));
    }
    let built = Python::attach(|py| -> PyResult<Box<dyn CongestionControl>> {
        let object = factory.bind(py).call1((CcConfig::from(config),))?;
        let module = py.import("warpline._congestion")?;
        if object.is_instance(&module.getattr("IntervalControl")?)? {
            let every = object.getattr("every")?.str()?.to_string();
            let window = Window::read(&object)?;
            let own = Object::new(&object, failure);
            return Ok(Box::new(Gathered::new(every.parse()?, config, window, own)));
        }
        let base = module.getattr("CongestionControl")?;
        if !object.is_instance(&base)? {
            return Err(PyTypeError::new_err(format!(
                "the congestion control is of type {}; derive its class from warpline.CongestionControl or \
                 warpline.IntervalControl",
                object.get_type().name()?
            )));
        }
        let wants_sent = !object.get_type().getattr("on_sent")?.is(&base.getattr("on_sent")?);
        let window = Window::read(&object)?;
        Ok(Box::new(PyCongestionControl::new(Object::new(&object, failure), window, wants_sent)))
    });
    built.unwrap_or_else(|error| {
        failure.set(error);
        Box::new(PyCongestionControl::idle(config))
    })
}
