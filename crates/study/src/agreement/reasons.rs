//! The reasons for differences between the model and Linux. Each rests on an experiment ("checked") or on the kernel's source.

use super::algorithms::Algorithm;
use super::cell::Cell;
use super::judge::Figure;

/// The reason for a difference of `percent` from Linux's result, if it is known.
pub(super) fn reason(
    algorithm: &Algorithm,
    cell: &Cell,
    figure: Figure,
    percent: f64,
) -> Option<&'static str> {
    let _ = (algorithm, cell, figure, percent);
    None
}
