//! Quantities as text.

use std::fmt;

/// Writes `value` with the largest of the units, each a multiple of 1000, that needs no more than three decimals; in the alternate form, `{:#}`,
/// with a space before it.
pub(crate) fn display(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(u64, &str)],
    base: &str,
) -> fmt::Result {
    let space = if f.alternate() { " " } else { "" };
    for &(unit, name) in units {
        let thousandth = unit / 1_000;
        if value >= unit && value.is_multiple_of(thousandth) {
            // In integers, since floating-point numbers are not exact above 2^53.
            let decimals = format!(".{:03}", value % unit / thousandth);
            let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
            return write!(f, "{}{decimals}{space}{name}", value / unit);
        }
    }
    write!(f, "{value}{space}{base}")
}
