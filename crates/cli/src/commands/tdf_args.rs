//! Time dilation factors in arguments of commands.

use warpline_core::Tdf;

/// Reads a factor.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| Tdf::new(*factor).is_some());
    factor.ok_or_else(|| format!("\"{text}\" is not a factor: give a number {}, such as 4", Tdf::ALLOWED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_or_refused_with_what_is_allowed() {
        assert_eq!(factor("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "1e-12", "1e7", "inf", "nan", "auto", ""] {
            assert!(
                factor(wrong)
                    .unwrap_err()
                    .ends_with("give a number from a billionth to a million, such as 4")
            );
        }
    }
}
