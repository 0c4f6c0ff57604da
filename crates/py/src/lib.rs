//! The extension module `warpline._warpline`: scenarios, runs, tables, congestion controls, their evaluation, runs in steps, QUIC, and words of `tc` for Python.
//!
//! It is the thin lower half of the package `warpline` (`python/warpline`), which is what people import.

mod cc;
mod custom;
mod errors;
mod evaluate;
mod interval;
mod metrics;
mod quic;
mod run;
mod scenario;
mod steps;
mod table;
mod tc;

use pyo3::prelude::*;

/// The compiled part of warpline.
#[pymodule]
mod _warpline {
    #[pymodule_export]
    use crate::cc::{AckSample, CcConfig, CongestionEvent};
    #[pymodule_export]
    use crate::evaluate::{Evaluation, evaluate};
    #[pymodule_export]
    use crate::interval::Interval;
    #[pymodule_export]
    use crate::metrics::openmetrics_names;
    #[pymodule_export]
    use crate::quic::{QuicCongestion, QuicConnection, QuicMessage, QuicServer, quic_keygen};
    #[pymodule_export]
    use crate::run::{
        Progress, Run, finish_seeds, prepare_seeds, report_seeds, result_tables, run_scenario, seeds_in,
        show, student_t_975,
    };
    #[pymodule_export]
    const LARGEST_SEED: u64 = warpline_scenario::LARGEST_SEED;
    #[pymodule_export]
    use crate::scenario::{Scenario, json_schema};
    #[pymodule_export]
    use crate::steps::NativeSteps;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::tc::{tc_netem, tc_percent, tc_value};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
